"""Features: frozen, repeatable, written whole."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from vergence import features
from vergence.counters import shuffled
from vergence.data import from_arrays, load
from vergence.evaluation import knn
from vergence.views import VIEWS


class Restless(nn.Module):
    """An encoder that counts its calls: what is examined must hold still."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return x


@pytest.fixture
def samples():
    x = np.random.default_rng(0).normal(size=(30, 5)).astype(np.float32)
    return from_arrays(x, np.arange(30) % 3)


def test_an_encoder_that_changes_while_it_is_examined_is_refused(samples):
    with pytest.raises(RuntimeError, match="not frozen"):
        features.extract(Restless(), samples, VIEWS["identity"]())


def test_features_leave_the_encoder_and_its_mode_as_they_were(samples):
    encoder = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4)).train()
    before = {name: tensor.clone() for name, tensor in encoder.state_dict().items()}
    features.extract(encoder, samples, VIEWS["identity"](), branches=(encoder, encoder))
    assert encoder.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in encoder.state_dict().items())


def test_views_of_samples_begin_with_the_sample_itself(samples):
    stacks, rows = features.of_views(nn.Identity(), samples, VIEWS["tabular"]().fitted(samples.x), views=4, limit=7)
    assert stacks.shape == (7, 4, 5)
    torch.testing.assert_close(stacks[:, 0], samples.x[rows])
    assert not torch.equal(stacks[:, 1], stacks[:, 2])


def test_features_round_trip_through_their_file(samples, tmp_path):
    made = features.extract(nn.Identity(), samples, VIEWS["identity"]())
    features.save(tmp_path / "features.safetensors", made.tensors("test"))
    read = features.read(tmp_path / "features.safetensors", "test")
    torch.testing.assert_close(read.h, samples.x)
    assert read.labels.tolist() == samples.labels.tolist()
    with pytest.raises(ValueError, match="holds no train_h"):
        features.read(tmp_path / "features.safetensors", "train")


def test_a_damaged_file_of_features_is_refused_in_a_sentence(tmp_path):
    path = tmp_path / "features.safetensors"
    features.save(path, {"test_h": torch.ones(3, 2)})
    assert features.stored(path)["test_h"].shape == (3, 2)
    raw = bytearray(path.read_bytes())
    raw[12] = 0
    path.write_bytes(raw)
    for read in (features.stored, lambda file: features.read(file, "test"), lambda file: features.holds(file, "test")):
        with pytest.raises(ValueError, match="is damaged"):
            read(path)


def test_representations_are_written_for_other_programs_as_arrays_only(samples, tmp_path):
    made = features.extract(nn.Identity(), samples, VIEWS["identity"]())
    features.write(tmp_path / "h.npy", made)
    np.testing.assert_array_equal(np.load(tmp_path / "h.npy"), samples.x.numpy())
    with pytest.raises(ValueError, match=r"\.npy or \.safetensors"):
        features.write(tmp_path / "h.pkl", made)


def test_an_encoder_that_fails_is_left_in_its_mode(samples):
    encoder = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).train()  # the samples have five columns
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        features.extract(encoder, samples, VIEWS["identity"]())
    assert encoder.training


@pytest.fixture(scope="module")
def orders():
    """The digits as they come, sorted by class, and shuffled."""
    digits = load("digits")
    orders = {"sorted": digits.labels.argsort(stable=True), "shuffled": shuffled(torch.arange(len(digits)), seed=1)}
    return {"given": digits} | {name: digits.take(order) for name, order in orders.items()}


def encoder_of(samples):
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(samples.x[0].numel(), 32), nn.ReLU())


@pytest.mark.parametrize("limit", [50, 301])
@pytest.mark.parametrize("name", ["given", "sorted", "shuffled"])
def test_a_part_of_the_samples_has_every_class_by_its_share(orders, name, limit):
    samples, recipe = orders[name], VIEWS["identity"]()
    shares = samples.labels.bincount() / len(samples)
    made = features.extract(encoder_of(samples), samples, recipe, limit=limit)
    stacks, rows = features.of_views(encoder_of(samples), samples, recipe, views=2, limit=limit)
    raw = features.raw(samples, recipe, limit=limit)
    for labels in (made.labels, samples.labels[rows], raw.labels, samples.labels[features.shown(samples)]):
        assert ((labels.bincount() - shares * len(labels)).abs() <= 1).all()
    assert torch.equal(made.labels, samples.labels[made.rows])
    assert torch.equal(raw.h.float() / 255, samples.x[raw.rows].flatten(1).float() / 255)
    with torch.no_grad():
        torch.testing.assert_close(made.h, encoder_of(samples)(recipe.plain(samples.x[made.rows])))
    torch.testing.assert_close(stacks[:, 0], features.extract(encoder_of(samples), samples, recipe).h[rows])


def test_accuracies_of_baselines_do_not_depend_on_the_order_of_the_data(orders):
    found = {"raw": [], "untrained": []}
    for samples in orders.values():
        half = torch.arange(len(samples)) % 2 == 0
        train, test = (samples.take(part.nonzero()[:, 0]) for part in (half, ~half))
        for kind, make in {
            "raw": lambda part: features.raw(part, VIEWS["identity"](), limit=300),
            "untrained": lambda part: features.extract(encoder_of(part), part, VIEWS["identity"](), limit=300),
        }.items():
            seen, left = make(train), make(test)
            found[kind].append(knn(seen.h.float(), seen.labels, left.h.float(), left.labels))
    for answers in found.values():
        assert max(answer.interval[0] for answer in answers) <= min(answer.interval[1] for answer in answers)


def test_raw_pictures_are_kept_small_and_come_back_as_shares(tmp_path):
    x = np.random.default_rng(0).integers(0, 256, (20, 64, 48, 3), dtype=np.uint8)
    kept = features.raw(from_arrays(x), VIEWS["simclr"]())
    assert kept.h.shape == (20, 3 * 32 * 24)
    path = features.save(tmp_path / "baselines.safetensors", kept.tensors("raw_test"))
    assert path.stat().st_size < 20 * 3 * 32 * 24 + 1000
    assert features.read(path, "raw_test").h.max() <= 1
    torch.testing.assert_close(features.read(path, "raw_test").h.mean(), torch.tensor(0.5), atol=0.01, rtol=0)


def test_thumbnails_names_and_labels_are_of_the_same_rows(monkeypatch):
    monkeypatch.setattr(features, "THUMBNAILS", 12)
    x = np.repeat(np.arange(40, dtype=np.uint8)[:, None, None, None], 8, axis=1).repeat(8, axis=2)
    samples = from_arrays(x, np.arange(40) // 10)
    made = features.thumbnails(samples)
    assert made["thumbnails"][:, 0, 0, 0].tolist() == made["thumbnail_rows"].tolist()
    assert samples.labels[made["thumbnail_rows"]].bincount().tolist() == [3, 3, 3, 3]


def test_every_view_is_stored_and_read_again(samples, tmp_path):
    recipe = replace(VIEWS["tabular"]().fitted(samples.x), draws=VIEWS["tabular"]().fitted(samples.x).draws * 2)
    made = features.extract(nn.Identity(), samples, recipe, branches=(nn.Identity(),), limit=9)
    path = features.save(tmp_path / "features.safetensors", made.tensors("test"))
    read = features.read(path, "test")
    assert len(read.z) == 4
    assert all(torch.equal(first, second) for first, second in zip(made.z, read.z, strict=True))
    assert torch.equal(read.rows, made.rows)

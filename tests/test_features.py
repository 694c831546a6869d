"""Features: frozen, repeatable, written whole."""

import numpy as np
import pytest
import torch
from torch import nn

from vergence import features
from vergence.data import from_arrays
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


def test_representations_are_written_for_other_programs_as_arrays_only(samples, tmp_path):
    made = features.extract(nn.Identity(), samples, VIEWS["identity"]())
    features.write(tmp_path / "h.npy", made)
    np.testing.assert_array_equal(np.load(tmp_path / "h.npy"), samples.x.numpy())
    with pytest.raises(ValueError, match=r"\.npy or \.safetensors"):
        features.write(tmp_path / "h.pkl", made)

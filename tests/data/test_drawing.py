"""Parts of the data, drawn evenly."""

import numpy as np
import pytest
import torch
from PIL import Image

from vergence import counters
from vergence.data import load, splits
from vergence.data.drawing import evenly, of_each_class, read_part

SORTED = torch.repeat_interleave(torch.arange(5), torch.tensor([400, 300, 200, 90, 10]))


@pytest.mark.parametrize("count", [10, 100, 999])
def test_every_class_has_its_share_sorted_or_shuffled(count):
    order = torch.randperm(1000, generator=torch.Generator().manual_seed(0))
    for labels in (SORTED, SORTED[order]):
        drawn = labels[evenly(1000, count, labels)].bincount(minlength=5)
        assert len(evenly(1000, count, labels)) == count
        assert (drawn - SORTED.bincount() * count / 1000).abs().max() <= 1


def test_a_draw_does_not_depend_on_how_many_keys_are_in_memory(monkeypatch):
    drawn, held = evenly(1000, 100), splits.held_out(np.zeros(1000, np.int64), 0.2, salt=1)
    monkeypatch.setattr(counters, "STRETCH", 64)
    monkeypatch.setattr(splits, "STRETCH", 64)
    assert torch.equal(evenly(1000, 100), drawn)
    np.testing.assert_array_equal(splits._smallest(1000, 200, 1), held)
    assert [int(splits._smallest(1000, count, 1).sum()) for count in (0, 1, 999, 1000)] == [0, 1, 999, 1000]


def test_a_part_is_spread_over_the_data_and_repeats_with_its_seed():
    chosen = evenly(10000, 1000)
    assert abs(chosen.float().mean() - 5000) < 300  # three standard errors of a mean of uniform places
    assert len(chosen.unique()) == 1000
    assert torch.equal(chosen, evenly(10000, 1000))
    assert not torch.equal(chosen, evenly(10000, 1000, seed=1))


def test_all_are_drawn_when_there_are_no_more():
    assert torch.equal(evenly(7, 9), torch.arange(7))
    with pytest.raises(ValueError, match="At least 1"):
        evenly(7, 0)


def test_of_each_class_so_many_and_of_so_many_classes():
    assert SORTED[of_each_class(SORTED, 20)].bincount().tolist() == [20, 20, 20, 20, 10]
    assert len(SORTED[of_each_class(SORTED, 20, classes=2)].unique()) == 2


def test_a_part_of_a_source_is_a_part_of_its_training_samples():
    whole, (drawn, total) = load("digits"), read_part("digits", 100)
    assert total == len(whole)
    known = {row.numpy().tobytes() for row in whole.x}
    assert len(drawn) == 100
    assert all(row.numpy().tobytes() in known for row in drawn.x)


def test_only_the_part_is_read(tmp_path, monkeypatch):
    for number in range(40):
        Image.fromarray(np.full((8, 8, 3), number, np.uint8)).save(tmp_path / f"{number:02}.png")
    opened = []
    original = Image.open
    monkeypatch.setattr(Image, "open", lambda file: opened.append(file) or original(file))
    drawn, total = read_part(f"folder:{tmp_path},size=8", 5)
    assert (len(drawn), total, len(opened)) == (5, 32, 5)


def test_labels_may_come_beside_the_data(tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(50, 4)))
    drawn, _ = read_part(f"array:{tmp_path}/x.npy", 100, np.arange(50) % 2)
    assert drawn.labels.bincount().tolist() == [20, 20]
    with pytest.raises(ValueError, match="49 labels for 50"):
        read_part(f"array:{tmp_path}/x.npy", 100, np.arange(49))

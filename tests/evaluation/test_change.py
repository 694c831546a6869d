"""Before and after: differences are paired, and a loss is called one."""

import pytest
import torch

from vergence.evaluation.change import Side, changes, summary


def sides(noise, n=300, d=8):
    """Three classes on axes, before with little noise and after with another amount."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(n) % 3
    made = []
    for scale in (0.3, noise):
        train, test = (4 * torch.eye(d)[labels] + scale * torch.randn(n, d, generator=generator) for _ in range(2))
        made.append(Side(train, test, test[:50, None] + 0.01 * scale * torch.randn(50, 4, d, generator=generator)))
    return (*made, labels, labels)


def test_noise_makes_it_worse_and_less_noise_better():
    before, after, *labels = sides(9.0)
    label, sentence = summary(list(changes(before, after, *labels)))
    assert label == "worse"
    assert "Training made it worse than the weights it started from: linear probe from 1.000 to " in sentence
    assert summary(list(changes(after, before, *labels)))[0] == "better"


def test_the_same_features_differ_in_nothing():
    before, _, *labels = sides(1.0)
    found = {change.name: change for change in changes(before, before, *labels)}
    assert {change.verdict for change in found.values()} == {""}
    assert found["neighbors kept"].after == 1.0
    assert (found["alignment"].low, found["alignment"].high) == (0.0, 0.0)
    assert summary(list(found.values()))[0] == "unchanged"


def test_without_labels_accuracy_is_unknown_and_lost_directions_are_said():
    before, _, *_ = sides(1.0)
    flat = Side(*(getattr(before, name) * torch.eye(8)[0] for name in ("train_h", "test_h")), before.views)
    label, sentence = summary(list(changes(before, flat)))
    assert label == "unknown"
    assert "cannot be said" in sentence
    assert "directions were lost" in sentence


def test_rotation_changes_no_neighbor():
    before, _, *labels = sides(1.0)
    turn = torch.linalg.qr(torch.randn(8, 8, generator=torch.Generator().manual_seed(1))).Q
    after = Side(before.train_h @ turn, before.test_h @ turn, before.views @ turn)
    found = {change.name: change for change in changes(before, after, *labels)}
    assert found["neighbors kept"].after == pytest.approx(1.0, abs=1e-3)
    assert found["uniformity"].after == pytest.approx(found["uniformity"].before, abs=1e-4)

"""Negatives: false negatives, effective sample size and vanished gradients, against closed forms."""

import math

import numpy as np
import pytest
import torch

from vergence.diagnostics import negatives
from vergence.diagnostics.negatives import false_negative_floor, same_class


def rows(n, d, seed=0):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed))


def test_the_share_of_false_negatives_is_that_of_pairs_with_one_label():
    labels = np.array([0, 0, 0, 1, 1, 2])
    pairs = [(i, j) for i in range(6) for j in range(6) if i != j]
    assert same_class(labels, 6).value == pytest.approx(np.mean([labels[i] == labels[j] for i, j in pairs]))


def test_the_floor_of_no_and_of_only_false_negatives():
    assert false_negative_floor(0.0, n=64, temperature=0.5) == pytest.approx(math.log1p(126 * math.exp(-4)))
    assert false_negative_floor(1.0, n=64, temperature=0.5) == pytest.approx(math.log(127))


def test_equal_negatives_are_all_effective_and_one_near_negative_is_alone():
    z = torch.eye(16)
    assert negatives(z, z, batch=16).effective.value == pytest.approx(1.0, rel=1e-5)
    close = torch.eye(16).repeat_interleave(2, 0)[:, :16] + 1e-2 * rows(32, 16)
    sharp = negatives(close, close, batch=32, temperature=0.01).effective
    assert sharp.value * (2 * 32 - 2) == pytest.approx(2, rel=0.1)  # both views of the one near sample


def test_gradients_vanish_in_float16_before_float32():
    z = torch.eye(16)  # positives at 1, negatives at 0: the gap is 1 / T
    shares = {t: negatives(z, z, batch=16, temperature=t) for t in (0.5, 0.07, 0.02)}
    vanished = {t: (found.vanished_float32, found.vanished_float16) for t, found in shares.items()}
    assert vanished == {0.5: (0.0, 0.0), 0.07: (0.0, 1.0), 0.02: (1.0, 1.0)}


def test_without_labels_negatives_closer_than_the_positive_are_counted():
    centers = torch.eye(4)[torch.arange(200) % 4]
    z1, z2 = (centers + 0.3 * rows(200, 4, seed=s) for s in (1, 2))
    crowded = negatives(z1, z2, batch=200).false_share.value
    assert negatives(rows(200, 16), rows(200, 16), batch=200).false_share.value == 0.0
    assert 0.02 < crowded < 0.25


def test_views_of_different_shapes_are_refused():
    with pytest.raises(ValueError, match=r"z1 has \[4, 3\], z2 has \[4, 2\]"):
        negatives(torch.ones(4, 3), torch.ones(4, 2))

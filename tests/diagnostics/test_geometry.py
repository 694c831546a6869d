"""Geometry: closed forms on known configurations, agreement with the objectives, and intervals that cover."""

import math

import numpy as np
import pytest
import torch

from vergence import objectives
from vergence.diagnostics import alignment, divergence, hubness, norms, tolerance, uniformity
from vergence.diagnostics.arrays import CHUNK, not_finite, sampled


def rows(n, d, seed=0):
    return torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_alignment_and_uniformity_are_the_objectives():
    z1, z2 = rows(60, 5), rows(60, 5, seed=1)
    assert alignment(z1, z2, alpha=3.0).value == pytest.approx(
        float(objectives.alignment(z1, z2, alpha=3.0)), rel=1e-12
    )
    assert uniformity(z1, t=1.5).value == pytest.approx(float(objectives.uniformity(z1, t=1.5)), rel=1e-12)


def test_uniformity_of_a_simplex_and_of_one_point():
    simplex = torch.eye(6, dtype=torch.float64) - 1 / 6
    assert uniformity(simplex).value == pytest.approx(-4 * 6 / 5, rel=1e-12)
    assert uniformity(torch.ones(50, 4)).value == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("measure", [uniformity, lambda z: alignment(z, z.roll(1, 1))])
def test_intervals_cover_the_population_in_most_samples(measure):
    law = torch.tensor([3.0, 1.0, 1.0, 0.5, 0.2], dtype=torch.float64)
    truth = measure(rows(4000, 5, seed=99) * law).value
    covered = sum(
        low <= truth <= high for low, high in (measure(rows(150, 5, seed=s) * law).interval for s in range(60))
    )
    assert covered >= 51  # 57 expected; fewer than 51 of 60 has probability 0.01


def test_a_sampled_uniformity_agrees_with_the_exact_one_within_its_interval():
    z = rows(9000, 6) + 0.5  # beyond 4096 rows, anchors are sampled
    estimated = uniformity(z)
    exact = float(objectives.uniformity(z))
    assert estimated.low < exact < estimated.high
    assert estimated.high - estimated.low < 0.1


def test_divergence_of_opposite_and_of_orthogonal_classes():
    labels = torch.arange(40) % 2
    opposite = torch.where(labels == 0, 1.0, -1.0)[:, None] * torch.ones(40, 3)
    found = divergence(opposite, labels)
    assert found.maximum.value == pytest.approx(-1.0)
    assert found.mean.value == pytest.approx(-1.0)
    corners = torch.eye(3)[torch.arange(30) % 3]
    assert divergence(corners, torch.arange(30) % 3).maximum.value == pytest.approx(0.0)


def test_divergence_names_the_closest_pair_and_its_interval_holds_the_value():
    centers = torch.tensor([[1.0, 0, 0], [0, 1.0, 0], [0, 0.9, 0.1]])
    labels = torch.arange(300) % 3
    found = divergence(centers[labels] + 0.1 * rows(300, 3).float(), labels)
    assert found.closest == (1, 2)
    assert found.maximum.low < found.maximum.value < found.maximum.high


def test_tolerance_is_the_mean_similarity_within_classes():
    h, labels = rows(30, 4), torch.arange(30) % 4
    units = torch.nn.functional.normalize(h, dim=1)
    per_row = [
        np.mean([float(units[i] @ units[j]) for j in range(30) if j != i and labels[i] == labels[j]]) for i in range(30)
    ]
    assert tolerance(h, labels).value == pytest.approx(np.mean(per_row), rel=1e-12)
    assert tolerance(torch.eye(3)[torch.arange(9) % 3], torch.arange(9) % 3).value == pytest.approx(1.0)


def test_norms_count_zero_rows():
    h = torch.tensor([[3.0, 4.0], [0.0, 0.0], [6.0, 8.0]])
    found = norms(h)
    assert (found.mean.value, found.zeros) == (5.0, 1)


def test_hubness_is_high_with_a_hub_and_low_without():
    circle = torch.linspace(0, 2 * math.pi, 201, dtype=torch.float64)[:-1]
    even = torch.stack([circle.cos(), circle.sin()], dim=1)
    assert abs(hubness(even, k=2).value) < 1e-9
    assert hubness(rows(800, 100) + 1).low > 1  # in a cone, rows near its axis are near to all


def test_angles_do_not_depend_on_lengths_or_rotation():
    z1, z2, labels = rows(50, 6), rows(50, 6, seed=1), torch.arange(50) % 5
    rotation = torch.linalg.qr(rows(6, 6, seed=2)).Q
    lengths = rows(50, 1, seed=3).exp()
    for measure in (lambda a, b: alignment(a, b), lambda a, b: uniformity(a), lambda a, b: divergence(a, labels).mean):
        moved = measure((z1 * lengths) @ rotation, (z2 * lengths) @ rotation).value
        assert moved == pytest.approx(measure(z1, z2).value, rel=1e-9)


def test_bad_rows_are_explained():
    with pytest.raises(ValueError, match=r"shape \[1, 3\]: at least 2 rows"):
        uniformity(torch.ones(1, 3))
    with pytest.raises(ValueError, match=r"not an array of shape \[3\]"):
        uniformity(torch.ones(3))
    with pytest.raises(ValueError, match=r"z1 has \[4, 3\], z2 has \[5, 3\]"):
        alignment(torch.ones(4, 3), torch.ones(5, 3))
    with pytest.raises(ValueError, match=r"There are 4 rows but the labels have the shape \[3\]"):
        divergence(torch.ones(4, 3), torch.arange(3))
    with pytest.raises(ValueError, match="All labels are equal"):
        divergence(torch.ones(4, 3), torch.zeros(4, dtype=torch.long))


def test_nan_rows_are_counted_and_located_across_chunks():
    h = np.zeros((CHUNK + 10, 2), dtype=np.float32)
    h[[5, CHUNK + 3], 1] = np.nan, np.inf
    assert not_finite(h).tolist() == [5, CHUNK + 3]
    with pytest.raises(ValueError, match=rf"2 of {CHUNK + 10} rows of h hold NaN or infinity \(rows 5, {CHUNK + 3}\)"):
        norms(h)


def test_a_sample_is_the_same_for_arrays_and_tensors_and_does_not_repeat():
    h = torch.arange(1000.0)[:, None]
    chosen = sampled(h, 100, seed=3)
    torch.testing.assert_close(chosen, sampled(h.numpy(), 100, seed=3))
    assert len(chosen.unique()) == 100

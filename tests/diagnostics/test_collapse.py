"""Collapse: each kind made on purpose is named, and healthy shapes are not."""

import math

import pytest
import torch

from vergence.diagnostics import collapse
from vergence.diagnostics.collapse import silent_directions


def rows(n, d, seed=0):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed))


HEALTHY = {
    "gaussian": rows(500, 32),
    "non-negative features": rows(500, 64).relu(),
    "clusters": 4 * rows(10, 32, seed=1)[torch.arange(500) % 10] + rows(500, 32),
    "decaying spectrum": rows(500, 64) * torch.arange(1, 65) ** -0.8,
    "more columns than rows": rows(40, 256),
    "two columns": rows(100, 2),
    "one column": rows(100, 1),
    "one column of positive numbers": rows(100, 1).exp(),
}


@pytest.mark.parametrize("shape", HEALTHY)
def test_healthy_shapes_have_not_collapsed(shape):
    assert collapse(HEALTHY[shape]).kind == "none"


def test_one_point_is_complete_collapse_whatever_its_place_and_rounding():
    assert collapse(torch.ones(100, 8)).kind == "complete"
    assert collapse(rows(1, 8) + 1e-3 * rows(100, 8, seed=1)).kind == "complete"
    assert collapse(torch.zeros(100, 8)).kind == "complete"
    assert collapse(torch.full((100, 1), 3.0)).kind == "complete"


def test_few_directions_are_dimensional_collapse_and_the_dead_ones_are_given():
    h = rows(300, 3) @ rows(3, 20, seed=1)
    found = collapse(h)
    assert (found.kind, found.dead, found.room) == ("dimensional", 17, 20)
    units = torch.nn.functional.normalize(h, dim=1).double()
    assert float((units @ silent_directions(h, found)).std(dim=0).max()) < 1e-5


def test_few_points_in_all_directions_are_cluster_collapse():
    centers = rows(40, 16)
    found = collapse(centers[torch.arange(800) % 40] + 1e-4 * rows(800, 16, seed=1))
    assert found.kind == "cluster"
    assert found.tightness < 1e-3


def test_directions_that_nothing_could_fill_are_not_missed():
    found = collapse(rows(80, 20) @ rows(20, 128, seed=1))
    assert (found.kind, found.dead, found.room) == ("dimensional", 59, 79)
    kinds = [found.within(most).kind for most in (20.0, 39.0, 41.0, math.inf)]
    assert kinds == ["none", "none", "dimensional", "dimensional"]
    assert collapse(torch.ones(100, 8)).within(4.0).kind == "complete"


def test_evidence_carries_the_numbers():
    found = collapse(rows(200, 4) @ rows(4, 40, seed=1))
    assert str(found.dead) in found.evidence[0]


def test_a_wide_embedding_need_not_fill_its_width():
    scale = torch.arange(1, 1025) ** -1.0
    generator = torch.Generator().manual_seed(0)
    found = collapse(torch.randn(2048, 1024, generator=generator) * scale)
    assert found.dead == 0
    assert 0.02 * 128 < found.rank < 0.02 * 1024
    assert found.kind == "none"

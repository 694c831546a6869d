"""SIGReg: the constants that its thermometer reads by, and identities with other objectives."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import chi2
from torch.nn.functional import normalize

from vergence.diagnostics import thermometer
from vergence.objectives import lejepa, sigreg
from vergence.objectives.characteristic import grid, unit_slices


def gaussian(n, d, seed=0):
    return torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def low_rank(n, d, rank, seed):
    """Rows of the same mean length as Gaussian ones, that fill few directions."""
    return gaussian(n, rank, seed) @ gaussian(rank, d, seed + 100) / math.sqrt(rank)


def mean_of(rows, draws=40, **options):
    return float(torch.stack([sigreg(rows(seed), seed=seed, **options) for seed in range(draws)]).mean())


@pytest.mark.parametrize(("n", "d"), [(16, 4), (64, 64), (256, 16)])
def test_independent_gaussian_rows_have_1_0525_for_every_size(n, d):
    assert mean_of(lambda seed: gaussian(n, d, seed), slices=128) == pytest.approx(1.0525, abs=0.06)


@pytest.mark.parametrize(("n", "d"), [(8, 3), (300, 64)])
def test_rows_that_are_all_zero_have_0_40205_n(n, d):
    value = float(sigreg(torch.zeros(n, d, dtype=torch.float64)))
    assert value == pytest.approx(0.40205 * n, rel=1e-4)
    assert value == pytest.approx(thermometer("sigreg", n=n, d=d).chance)
    shifted = float(sigreg(torch.full((n, d), 0.3, dtype=torch.float64)))
    assert shifted > value, "0 is where rows that coincide have the least"


def test_rows_that_coincide_far_from_zero_tend_to_3_58_n_as_their_wave_averages_out_but_at_the_first_knot():
    n, d, step = 16, 64, 3 / 16
    far = 1e5 * normalize(gaussian(1, d)).expand(n, d)
    # On average |e^{itc} - e^{-t^2/2}|^2 is 1 + e^{-t^2}; at the first knot, t = 0, it is 0 instead of 2.
    limit = math.sqrt(2 * math.pi) * (1 + 1 / math.sqrt(3)) - 2 * step
    assert float(sigreg(far, slices=4096)) == pytest.approx(limit * n, rel=0.02)


def test_rows_of_length_one_have_about_0_38_n_and_the_thermometer_says_so():
    n, d = 512, 64
    value = float(sigreg(normalize(gaussian(n, d))))
    assert value == pytest.approx(0.379 * n, rel=0.02)
    reading = thermometer("sigreg", n=n, d=d, loss=value)
    assert reading.verdict == "not started"
    assert "somebody normalized first" in reading.sentence


def test_rows_evenly_on_the_sphere_of_radius_root_d_score_as_gaussian_ones():
    d = 64
    value = mean_of(lambda seed: math.sqrt(d) * normalize(gaussian(256, d, seed)), slices=128)
    assert value == pytest.approx(1.0525, abs=0.06)
    marks = thermometer("sigreg", n=256, d=d).marks
    assert marks["rows of length sqrt(d), evenly on their sphere"] == pytest.approx(value, abs=0.06)


def expected_of_low_rank(n, rank):
    """Along a direction such rows are Gaussian with a variance of chi-square / rank, by the two terms of ``scales``."""
    t, standard, weights = (part.numpy() for part in grid(17, 3.0))
    variances = chi2.ppf((np.arange(2000) + 0.5) / 2000, rank) / rank
    f = np.exp(-np.outer(variances, t**2) / 2)
    return float(((weights * (1 - f**2)).sum(1) + n * (weights * (f - standard) ** 2).sum(1)).mean())


def test_small_batches_hardly_see_dimensional_collapse():
    assert [expected_of_low_rank(n, 8) for n in (64, 256, 1024)] == pytest.approx([2.90, 8.60, 31.4], rel=2e-3)
    # A draw of 1024 rows is off by 4.3: 35 is as likely as 28.
    for n, off in ((64, 0.3), (1024, 4.0)):
        found = mean_of(lambda seed, n=n: low_rank(n, 64, 8, seed), draws=12)
        assert found == pytest.approx(expected_of_low_rank(n, 8), abs=off)


def test_on_a_small_sphere_and_in_large_batches_rows_are_seen_not_to_be_gaussian():
    """The projection of a sphere of few dimensions is bounded; Gaussian rows would have 1.05 for every size."""
    mark = "rows of length sqrt(d), evenly on their sphere"
    values = [thermometer("sigreg", n=n, d=d).marks[mark] for n, d in ((256, 64), (256, 8), (1024, 8))]
    assert values == pytest.approx([1.06, 1.62, 3.22], abs=0.01)


@pytest.mark.parametrize("d", [256, 2048])
def test_the_thermometer_reads_wide_embeddings(d):
    """A direction of many columns is nearly 0 along each; times sqrt(d) it is nearly Gaussian."""
    n = 256
    marks = thermometer("sigreg", n=n, d=d).marks
    assert marks["rows of length 1"] == pytest.approx(float(sigreg(normalize(gaussian(n, d)), slices=64)), rel=1e-3)
    assert marks["rows of length sqrt(d), evenly on their sphere"] == pytest.approx(1.0525, rel=2e-3)
    assert math.isfinite(thermometer("lejepa", n=n, d=d, weight=0.05).random)


def test_it_is_the_integral_that_its_docstring_has():
    z, slices = gaussian(9, 3), 5
    t = torch.linspace(-3, 3, 33, dtype=torch.float64)
    x = z @ unit_slices(slices, 3, 7).T
    empirical = torch.exp(1j * t[:, None, None] * x).mean(1)
    weight = torch.exp(-t.square() / 2)[:, None]
    expected = 9 * torch.trapezoid((empirical - weight).abs().square() * weight, t, dim=0).mean()
    torch.testing.assert_close(sigreg(z, slices=slices, seed=7), expected)


def test_it_is_the_same_in_blocks(monkeypatch):
    z = gaussian(20, 6).requires_grad_()
    whole = sigreg(z)
    monkeypatch.setattr("vergence.objectives.characteristic.CELLS", 1000)
    parts = sigreg(z)
    torch.testing.assert_close(parts, whole)
    torch.testing.assert_close(*(torch.autograd.grad(value, z)[0] for value in (whole, parts)))


def test_directions_depend_on_the_seed_alone():
    z = gaussian(16, 8)
    assert sigreg(z, seed=3) == sigreg(z, seed=3)
    assert sigreg(z, seed=3) != sigreg(z, seed=4)
    torch.testing.assert_close(unit_slices(50, 8, 1).norm(dim=1), torch.ones(50, dtype=torch.float64))


def test_lejepa_is_its_two_parts_and_the_center_is_that_of_the_global_views():
    z1, z2, z3 = (gaussian(12, 5, seed) for seed in range(3))
    regular = sum(sigreg(z, seed=2) for z in (z1, z2, z3)) / 3
    center = (z1 + z2) / 2
    distance = torch.stack([(z - center).square().mean() for z in (z1, z2, z3)]).mean()
    value = lejepa(z1, z2, z3, global_views=2, weight=0.1, seed=2)
    torch.testing.assert_close(value, 0.1 * regular + 0.9 * distance)
    torch.testing.assert_close(lejepa(z1, z1, weight=0.3), 0.3 * sigreg(z1))


@pytest.mark.parametrize(("option", "value"), [("slices", 0), ("knots", 1), ("limit", 0.0)])
def test_a_grid_without_points_is_refused(option, value):
    with pytest.raises(ValueError, match=f"^{option} must be"):
        sigreg(gaussian(4, 2), **{option: value})
    with pytest.raises(ValueError, match="weight must be between 0 and 1"):
        lejepa(gaussian(4, 2), gaussian(4, 2), weight=1.5)

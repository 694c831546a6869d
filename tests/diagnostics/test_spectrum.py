"""The spectrum: closed forms of known spectra, invariances, streaming, and what other libraries print."""

import math

import numpy as np
import pytest
import torch

from vergence.diagnostics import effective_rank, effective_rank_variants, isotropy, lidar, singular_values, spectrum
from vergence.diagnostics.arrays import CHUNK
from vergence.diagnostics.spectrum import decay_exponent, participation_ratio, stable_rank


def rows(n, d, seed=0):
    return torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def with_spectrum(values, n=200, seed=0):
    """Rows with mean zero and the given singular values."""
    values = torch.as_tensor(values, dtype=torch.float64)
    left = rows(n, len(values), seed)
    left = torch.linalg.qr(left - left.mean(dim=0)).Q
    return left * values @ torch.linalg.qr(rows(len(values), len(values), seed + 1)).Q.T


@pytest.mark.parametrize("rank", [1, 3, 8])
def test_equal_singular_values_give_their_number(rank):
    h = with_spectrum([1.0] * rank + [0.0] * (8 - rank))
    assert effective_rank(h) == pytest.approx(rank, rel=2e-5 * 8)  # the epsilon of the paper adds a little


def test_effective_rank_is_the_formula_of_the_paper():
    sigma = np.array([5.0, 2.0, 1.0, 0.1])
    p = sigma / sigma.sum() + 1e-7
    assert effective_rank(with_spectrum(sigma)) == pytest.approx(math.exp(-(p * np.log(p)).sum()), rel=1e-9)


def test_effective_rank_sees_the_mean_and_the_centered_variant_does_not():
    h = with_spectrum([1.0] * 6)
    far = h + 100
    assert effective_rank(far) < 1.5
    assert effective_rank_variants(far)["singular values, centered"] == pytest.approx(6, rel=1e-6)


@pytest.mark.parametrize(("n", "d"), [(50, 20), (20, 50), (30, 30)])
def test_streamed_singular_values_are_those_of_the_matrix(n, d):
    h = rows(n, d) + 1
    torch.testing.assert_close(singular_values(h), torch.linalg.svdvals(h), atol=1e-6, rtol=1e-6)
    centered = torch.linalg.svdvals(h - h.mean(dim=0))
    torch.testing.assert_close(singular_values(h, centered=True), centered, atol=1e-6, rtol=1e-6)


def test_a_memory_mapped_file_gives_what_memory_gives(tmp_path):
    h = rows(CHUNK + 100, 6).float().numpy()
    np.save(tmp_path / "h.npy", h)
    mapped = np.load(tmp_path / "h.npy", mmap_mode="r")
    assert effective_rank(mapped) == pytest.approx(effective_rank(torch.from_numpy(h)), rel=1e-12)


def test_small_directions_are_resolved_in_float32_input():
    h = with_spectrum([1.0, 1e-3, 1e-6], n=3000).float()
    assert singular_values(h).tolist() == pytest.approx([1.0, 1e-3, 1e-6], rel=0.05)


def test_ranks_of_a_power_law():
    values = torch.arange(1, 201, dtype=torch.float64) ** -0.75  # eigenvalues index^-1.5
    assert decay_exponent(values) == pytest.approx(1.5, rel=1e-9)
    eigenvalues = values**2
    assert participation_ratio(values) == pytest.approx(float(eigenvalues.sum() ** 2 / (eigenvalues**2).sum()))
    assert stable_rank(values) == pytest.approx(float(eigenvalues.sum()))


def test_intervals_shrink_with_more_rows_and_hold_the_value():
    few, many = (spectrum(rows(n, 10) * torch.linspace(0.1, 1, 10)).participation_ratio for n in (200, 5000))
    assert few.low < few.value < few.high
    assert many.high - many.low < 0.5 * (few.high - few.low)


def test_dead_directions_are_counted():
    assert spectrum(with_spectrum([1.0, 0.5, 1e-6, 0.0])).dead == 2


def test_isotropy_of_a_cloud_and_of_a_cone():
    assert isotropy(rows(4000, 8)) > 0.95
    assert isotropy(rows(4000, 8) + 5) < 0.2


def test_lidar_does_not_ask_how_many_columns_hold_the_rows():
    """Turned into more columns than there are views, rows keep their discriminants; the span is searched there."""
    generator = torch.Generator().manual_seed(0)
    z1 = torch.randn(20, 30, generator=generator, dtype=torch.float64)
    z2 = z1 + 0.3 * torch.randn(20, 30, generator=generator, dtype=torch.float64)
    wide = torch.linalg.qr(torch.randn(41, 30, generator=generator, dtype=torch.float64)).Q.T
    assert lidar(z1 @ wide, z2 @ wide) == pytest.approx(lidar(z1, z2), rel=1e-4)


def test_lidar_counts_directions_that_views_keep():
    samples, noise = rows(500, 10), rows(500, 10, seed=5)
    kept = torch.arange(10) < 4
    z1, z2 = (torch.where(kept, samples, sign * noise) for sign in (1, -1))
    assert lidar(z1, z2) == pytest.approx(4, abs=0.2)
    assert lidar(samples + 0.1 * noise, samples - 0.1 * noise) > 9


def test_rotation_and_scale_do_not_matter():
    h = rows(60, 7)
    moved = 3.0 * h @ torch.linalg.qr(rows(7, 7, seed=1)).Q
    assert effective_rank(moved) == pytest.approx(effective_rank(h), rel=1e-9)


def test_constant_rows_have_one_direction():
    assert effective_rank(torch.ones(20, 5)) == pytest.approx(1.0, abs=1e-4)
    assert effective_rank(torch.zeros(20, 5)) == 1.0


def test_float32_and_bfloat16_agree_with_float64():
    h = rows(300, 12)
    assert effective_rank(h.float()) == pytest.approx(effective_rank(h), rel=1e-5)
    assert effective_rank(h.bfloat16()) == pytest.approx(effective_rank(h), rel=1e-2)


@pytest.mark.parametrize("decay", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("n", [60, 100, 200, 600])
def test_the_interval_of_the_effective_rank_covers_that_of_many_more_rows(decay, n):
    generator = torch.Generator().manual_seed(0)
    scale = torch.arange(1, 49, dtype=torch.float64) ** -decay
    many = torch.randn(20_000, 48, generator=generator, dtype=torch.float64) * scale
    truth = effective_rank(many)
    found = [spectrum(many[part * n : (part + 1) * n]).effective_rank for part in range(10)]
    assert sum(one.low <= truth <= one.high for one in found) >= 9


def test_fewer_rows_than_columns_have_the_spectrum_of_their_matrix():
    h = torch.randn(12, 300, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    torch.testing.assert_close(spectrum(h).singular_values, torch.linalg.svdvals(h))


@pytest.mark.parametrize("n", [100, 600])
def test_the_interval_of_the_effective_rank_covers_that_of_many_rows(n):
    """Of 40 draws of unit rows with a falling spectrum at least 35: 95 % intervals miss more once in a hundred."""
    scale = (1 + torch.arange(48, dtype=torch.float64)) ** -0.7

    def drawn(count, seed):
        return torch.nn.functional.normalize(rows(count, 48, seed) * scale, dim=1)

    truth = spectrum(drawn(100_000, 1)).effective_rank.value
    found = [spectrum(drawn(n, seed)).effective_rank for seed in range(2, 42)]
    assert sum(each.low <= truth <= each.high for each in found) >= 35


def test_numbers_of_directions_stay_between_one_and_all_of_them_beside_a_row_of_any_length():
    rows = torch.randn(100, 16, generator=torch.Generator().manual_seed(0))
    rows[50] = 1e20
    found = spectrum(rows)
    for count in (found.effective_rank, found.participation_ratio, found.stable_rank):
        assert 1 <= count.low <= count.value * (1 + 1e-9) <= count.high * (1 + 1e-9) <= 16 * (1 + 1e-9)

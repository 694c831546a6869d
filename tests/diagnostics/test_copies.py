"""Copies: exact ones are counted, near ones are told from rows that are close by nature, accuracies are corrected."""

import pytest
import torch

from vergence.diagnostics import duplicates


def rows(n, d, seed=0):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed))


def test_exact_and_near_duplicates_are_counted():
    h = rows(200, 8)
    assert duplicates(h).exact == 0
    found = duplicates(torch.cat([h, h[:30], h[:10] * (1 + 1e-5)]))
    assert found.exact == 30
    assert found.share.value == pytest.approx((30 + 30 + 10) / 240)


def test_rows_that_differ_in_one_bit_or_in_order_are_not_exact_duplicates():
    h = rows(50, 4)
    nearly = h.clone()
    nearly[:, 0] = torch.nextafter(h[:, 0], torch.tensor(10.0))
    assert duplicates(torch.cat([h, nearly, h.flip(1)])).exact == 0
    assert duplicates(torch.tensor([[0.0, 1.0], [-0.0, 1.0], [1.0, 0.0]])).exact == 1


@pytest.mark.parametrize("d", [1, 2, 3, 10, 100])
def test_rows_that_are_close_by_nature_are_no_copies(d):
    assert duplicates(rows(1000, d)).share.value < 0.01


def test_a_cloud_whose_parts_have_fewer_dimensions_than_its_median_row_has_no_copies():
    """A sixth of the rows lies on a line: their neighbors are near by nature, and thin out instead of being apart."""
    line = 3 * rows(170, 1, seed=3) * torch.ones(1, 12) / 12**0.5
    found = duplicates(torch.cat([rows(850, 12), line]))
    assert found.share.value < 0.01


def test_one_hot_rows_with_noise_are_no_copies():
    h = torch.eye(10)[torch.arange(1000) % 10] + 0.01 * rows(1000, 10)
    assert duplicates(h).share.value < 0.01


def test_the_accuracy_that_copies_lend_is_taken_away():
    labels = torch.arange(600) % 2
    h = rows(600, 16)
    copied = duplicates(torch.cat([h, *[h + 1e-4 * rows(600, 16, seed=k) for k in range(1, 9)]]), labels.repeat(9))
    assert copied.accuracy.value > 0.7
    assert copied.accuracy.value - copied.inflation.value == pytest.approx(0.5, abs=0.12)

"""Facts about rows that depend on each other."""

import math

import numpy as np
import pytest

from vergence.information import estimate
from vergence.information.order import inflation, order


def series(n: int, phi: float, seed: int = 0, d: int = 1) -> np.ndarray:
    rows = np.random.default_rng(seed).normal(size=(n, d))
    for t in range(1, n):
        rows[t] = phi * rows[t - 1] + math.sqrt(1 - phi**2) * rows[t]
    return rows


@pytest.mark.parametrize("phi", [0.4, 0.8, 0.97])
def test_a_series_and_its_lag_are_dependent_rows(phi):
    rows = series(600, phi)
    found = order(rows[:-1], rows[1:])
    assert found.memory >= 2
    assert "series" in found.sentence


def test_independent_rows_are_not_and_rarely_taken_for_it():
    random = np.random.default_rng(0)
    assert sum(order(random.normal(size=(300, 4)), random.normal(size=(300, 4))).memory > 0 for _ in range(60)) <= 1


def test_rows_sorted_by_a_class_or_a_column_are_not_a_series():
    random = np.random.default_rng(1)
    label = np.repeat(np.arange(4.0), 200)[:, None]
    assert order(random.normal(size=(800, 3)) + 2 * label, label).memory == 0
    x = np.sort(random.normal(size=(800, 1)), axis=0)
    assert order(x, x + 0.5 * random.normal(size=(800, 1))).memory == 0


def test_rows_whose_classes_take_turns_are_not_a_series_unless_more_than_that_repeats():
    random, label = np.random.default_rng(1), (np.arange(800.0) % 3)[:, None]
    assert order(random.normal(size=(800, 3)) + 2 * label, label).memory == 0
    assert order(series(800, 0.9) + 2 * label, label).memory >= 2


def test_only_the_variance_of_a_series_is_clustered_and_that_is_seen():
    quiet = np.exp(series(1500, 0.97))
    rows = quiet * np.random.default_rng(2).normal(size=quiet.shape)
    assert order(rows[:-1], rows[1:]).memory >= 2


def test_the_mean_of_a_series_varies_as_its_inflation_says():
    means = [series(400, 0.8, seed).mean() for seed in range(200)]
    ratio = np.var(means) * 400  # the terms have variance one
    assert ratio == pytest.approx((1 + 0.8) / (1 - 0.8), rel=0.3)
    assert np.mean([inflation(series(4000, 0.8, seed)[:, 0], 14) for seed in range(10)]) == pytest.approx(9, rel=0.35)
    assert inflation(np.random.default_rng(0).normal(size=400), 0) == 1


def test_a_lagged_series_is_low_and_its_reason_is_said():
    rows = series(800, 0.9)
    found = estimate(rows[:-1], rows[1:])
    assert found.trust == "low"
    assert "Rows depend on the rows before them" in found.trust.sentence
    independent = estimate(*(np.random.default_rng(seed).normal(size=(799, 1)) for seed in (1, 2)))
    width = lambda f: f.interval[1] - f.interval[0]
    assert width(found) > width(independent)

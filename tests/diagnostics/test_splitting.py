"""Two groups: the best cut of one column, scikit-learn's split where groups are apart."""

import numpy as np
import pytest
from sklearn.cluster import KMeans

from vergence.diagnostics.splitting import two_gaussians, two_means


def agreement(first, second):
    same = float(np.mean(first == second))
    return max(same, 1 - same)


def two_groups(shift, n=400, d=16, seed=0):
    generator = np.random.default_rng(seed)
    rows = generator.normal(size=(n, d))
    rows[: n // 3] += shift * generator.normal(size=d)
    return rows / rows.std(), np.arange(n) < n // 3


def test_of_one_column_no_cut_is_better():
    values = np.random.default_rng(0).normal(size=60) ** 3
    member = two_means(values[:, None])

    def spread(side):
        return sum(np.square(values[part] - values[part].mean()).sum() for part in (side, ~side))

    assert spread(member) <= min(spread(values > cut) for cut in np.sort(values)[:-1]) + 1e-12


@pytest.mark.parametrize("shift", [1.0, 2.0])
def test_two_means_are_scikit_learns(shift):
    rows, truth = two_groups(shift)
    theirs = KMeans(2, n_init=3, random_state=0).fit_predict(rows).astype(bool)
    assert agreement(two_means(rows), theirs) > 0.99
    assert agreement(two_means(rows), truth) > 0.97


def test_two_gaussians_tell_a_narrow_group_from_a_wide_one_with_the_same_mean():
    generator = np.random.default_rng(1)
    rows = generator.normal(size=(600, 4))
    rows[:300] *= 0.1
    found = max(agreement(two_gaussians(rows, seed), np.arange(600) < 300) for seed in range(2))
    assert found > 0.97
    assert agreement(two_means(rows), np.arange(600) < 300) < 0.7  # means alone cannot


def test_rows_that_are_all_the_same_are_one_group():
    assert not two_means(np.ones((10, 3))).any()

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


def test_two_models_whose_rows_are_one_cloud_are_told_apart_by_their_classes():
    """Half of white rows turned: mean and covariance stay, so that neither means nor scales can tell."""
    generator = np.random.default_rng(1)
    labels, turned = generator.integers(0, 4, 600), generator.random(600) < 0.5
    rows = 2 * generator.normal(size=(4, 6))[labels] + generator.normal(size=(600, 6))
    rows = (rows - rows.mean(axis=0)) @ np.linalg.inv(np.linalg.cholesky(np.cov(rows.T)).T)
    rows[turned] = rows[turned] @ np.linalg.qr(generator.normal(size=(6, 6)))[0]
    assert max(agreement(two_gaussians(rows, labels, seed), turned) for seed in range(8)) > 0.9
    assert max(agreement(two_means(rows, seed), turned) for seed in range(8)) < 0.7


def test_rows_that_are_all_the_same_are_one_group():
    assert not two_means(np.ones((10, 3))).any()

"""Facts about the screening of columns."""

import numpy as np

from vergence.information.screening import dependence, matched, relevant, threshold


def test_independent_columns_stay_below_the_threshold():
    random = np.random.default_rng(0)
    largest = [dependence(random.normal(size=(300, 6)), random.normal(size=(300, 6))).max() for _ in range(50)]
    assert max(largest) < threshold(36)


def test_the_statistic_of_independent_columns_has_mean_zero_and_deviation_one():
    random = np.random.default_rng(1)
    values = dependence(random.normal(size=(500, 30)), random.normal(size=(500, 30)))
    assert abs(values.mean()) < 0.15
    assert abs(values.std() - 1) < 0.15


def test_symmetric_relations_are_seen_and_matched():
    random = np.random.default_rng(2)
    x, y = random.normal(size=(2, 1000, 8))
    y[:, 2] = x[:, 5] ** 2 + 0.3 * y[:, 2]
    y[:, 7] = np.sign(random.normal(size=1000)) * x[:, 1]
    strength = dependence(x, y)
    assert set(matched(strength, most=8)) == {(5, 2), (1, 7)}
    assert set(relevant(strength, 0, most=8)) == {1, 5}
    assert set(relevant(strength, 1, most=8)) == {2, 7}


def test_monotone_maps_of_columns_change_nothing():
    x, y = np.random.default_rng(3).normal(size=(2, 200, 3))
    np.testing.assert_allclose(dependence(np.exp(x), y**3), dependence(x, y))

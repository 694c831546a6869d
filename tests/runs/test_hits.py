"""Paired differences: closed forms, coverage, and that only disagreements count."""

import numpy as np
import pytest

from vergence.evaluation import Accuracy
from vergence.runs.hits import difference, few_gains, gains, paired_difference, read_hits, save_hits

ROWS = "rows"


def test_only_samples_on_which_the_two_disagree_count():
    first = np.array([1, 1, 1, 0] * 50, dtype=bool)
    second = np.array([1, 1, 0, 0] * 50, dtype=bool)
    found = paired_difference(first, second)
    assert found.value == pytest.approx(0.25)
    # Agresti & Min: b = 50.5, c = .5, n = 202.
    half = 1.959964 * np.sqrt(51 - 50**2 / 202) / 202
    assert (found.low, found.high) == (pytest.approx(50 / 202 - half), pytest.approx(50 / 202 + half))
    assert found.certain


def test_two_that_agree_everywhere_leave_a_doubt_that_shrinks_with_n():
    widths = []
    for n in (20, 2000):
        same = np.arange(n) % 3 == 0
        found = paired_difference(same, same)
        assert found.value == 0.0
        assert not found.certain
        widths.append(found.high - found.low)
    assert widths[0] > 50 * widths[1]


def test_the_interval_covers_the_true_difference_about_as_often_as_it_says():
    random = np.random.default_rng(0)
    covered = 0
    for _ in range(2000):
        draws = random.uniform(size=80)
        first, second = draws < 0.7, (draws < 0.5) | (draws > 0.9)  # 0.7 and 0.6, right together in half
        found = paired_difference(first, second)
        covered += found.low <= 0.1 <= found.high
    assert 0.94 <= covered / 2000 <= 0.98


def test_pairs_are_matched_by_row_not_by_place():
    random = np.random.default_rng(0)
    right = random.uniform(size=100) < 0.6
    order = random.permutation(100)[:70]
    mine, theirs = {ROWS: np.arange(100), "kNN": right}, {ROWS: order, "kNN": right[order]}
    found = difference(mine, theirs, "kNN")
    assert (found.value, found.n) == (0.0, 70)
    assert difference(mine, theirs, "linear probe") is None


def test_few_labels_are_compared_draw_by_draw_on_the_rows_that_both_have():
    random = np.random.default_rng(1)
    right = random.uniform(size=(10, 100)) < 0.6
    order = random.permutation(100)[:70]
    wrong = right[:, order].copy()
    wrong[:, :35] = False  # half of the shared samples are lost in every draw

    def judged(hits, classifier="linear probe", per_class=5.0):
        found = Accuracy(hits.mean(), (0.0, 1.0), hits.shape[1], hits[-1], classifier, {}, hits)
        return found, {"per_class": per_class}

    both = {"trained encoder": [judged(right)], "raw pixels": [judged(wrong), judged(wrong, "kNN")]}
    (gain,) = few_gains(both, {"raw pixels": order})
    assert gain.value == pytest.approx(right[:, order[:35]].sum() / 700)
    assert (gain.n, gain.per_class, gain.certain) == (70, 5.0, True)
    same = {"trained encoder": [judged(right)], "raw pixels": [judged(right[:, order])]}
    (none,) = few_gains(same, {"raw pixels": order})
    assert (none.value, none.low, none.high) == (0.0, 0.0, 0.0)


def test_hits_come_back_as_they_were_kept_and_a_torn_file_is_none(tmp_path):
    kept = {
        "trained encoder": {ROWS: np.arange(9), "kNN": np.arange(9) % 2 == 0},
        "raw pixels": {ROWS: np.arange(4, 9), "kNN": np.arange(5) % 2 == 1},
    }
    save_hits(tmp_path, kept)
    back = read_hits(tmp_path)
    for name, each in kept.items():
        for key, array in each.items():
            np.testing.assert_array_equal(back[name][key], array)
    (gain,) = gains(back)
    assert (gain.over, gain.n, gain.value) == ("raw pixels", 5, pytest.approx(3 / 5 - 2 / 5))
    (tmp_path / "hits.safetensors").write_bytes(b"torn")
    assert read_hits(tmp_path) == {}
    assert read_hits(tmp_path / "absent") == {}


def test_shapes_that_do_not_match_are_refused():
    with pytest.raises(ValueError, match="one value a sample from both"):
        paired_difference(np.ones(3), np.ones(4))

"""Selection: the order of scores, agreement with accuracy, and intervals."""

import math

import pytest
from scipy.stats import spearmanr

from vergence.diagnostics.selection import SCORES, WRONG, Ranking, selection, spearman, spearman_interval, unlike


def run(effective_rank, uniformity, decay_exponent, **others):
    values = {"effective_rank": effective_rank, "uniformity": uniformity, "decay_exponent": decay_exponent, **others}
    return {name: {"value": value} for name, value in values.items()}


RUNS = {"a": run(10.0, -3.0, 1.1), "b": run(30.0, -2.0, 0.2), "c": run(20.0, -1.0, 3.0, lidar=3.0)}


def test_each_score_is_read_in_its_own_direction_and_only_shared_ones_are_used():
    found = {ranking.score: ranking.runs for ranking in selection(RUNS, {"a": 0.9, "b": 0.8, "c": 0.7})}
    assert found == {
        "effective_rank": ("b", "c", "a"),
        "uniformity": ("a", "b", "c"),
        "decay_exponent": ("a", "b", "c"),
    }


def test_agreement_is_one_when_the_score_ranks_as_the_labels_do_and_minus_one_when_reversed():
    found = {ranking.score: ranking.agreement for ranking in selection(RUNS, {"a": 0.9, "b": 0.8, "c": 0.7})}
    assert found["uniformity"] == pytest.approx(1.0)
    assert found["effective_rank"] == pytest.approx(-0.5)


def test_spearman_is_scipys():
    first, second = [1.0, 5.0, 2.0, 2.0, 9.0], [2.0, 4.0, 1.0, 3.0, 3.5]
    assert spearman(first, second) == pytest.approx(spearmanr(first, second).statistic)
    assert math.isnan(spearman([1.0, 1.0], [1.0, 2.0]))


def test_few_runs_say_nothing_and_many_say_more():
    assert spearman_interval(0.9, 3) == (-1.0, 1.0)
    few, many = spearman_interval(0.9, 6), spearman_interval(0.9, 60)
    assert few[0] < many[0] < 0.9 < many[1] < few[1]


def test_a_perfect_order_of_few_runs_is_not_taken_for_certain():
    low, high = spearman_interval(1.0, 4)
    assert low < 0 < high == 1.0
    assert spearman_interval(1.0, 30)[0] > 0.95
    assert spearman_interval(-1.0, 4) == pytest.approx((-1.0, -low))


def test_a_score_without_a_value_ranks_nothing():
    unknown = {**RUNS, "b": run(30.0, None, 0.2)}
    judged = selection(unknown, {"a": 0.9, "b": 0.8, "c": 0.7})
    assert [ranking.score for ranking in judged] == ["effective_rank", "decay_exponent"]


def test_scores_that_misled_are_shown_only_beside_labels_that_judge_them():
    assert [ranking.score for ranking in selection(RUNS)] == ["effective_rank"]


def test_one_run_cannot_be_ranked():
    with pytest.raises(ValueError, match="at least two runs; got 1"):
        selection({"a": RUNS["a"]})


LIKE = {
    "data": "digits",
    "views": "glyph",
    "encoder": "mlp",
    "objective": "nt_xent",
    "hyperparameters": {},
    "batch": 128,
}


@pytest.mark.parametrize(
    ("key", "said"), [("data", "data"), ("views", "augmentation"), ("encoder", "family of encoders")]
)
def test_runs_that_differ_in_what_scores_do_not_survive_are_refused(key, said):
    settings = {"a": LIKE, "b": LIKE, "c": {**LIKE, key: "other"}}
    assert said in unlike(settings)
    assert selection(RUNS, settings=settings) == ()
    assert selection(RUNS, {"a": 0.9, "b": 0.8, "c": 0.7}, settings)  # labels judge the scores


def test_like_runs_are_ranked_and_what_is_not_known_is_not_alike():
    assert unlike({"a": LIKE, "b": {**LIKE, "objective": "vicreg"}}) is None
    assert unlike({"a": {}, "b": {}}) is not None


def test_losses_of_different_batches_rank_nothing():
    runs = {name: {**found, "held_out_loss": {"value": 1.0}} for name, found in RUNS.items()}
    settings = {name: {**LIKE, "batch": 128 * (place + 1)} for place, name in enumerate(RUNS)}
    assert "held_out_loss" in [ranking.score for ranking in selection(runs, settings=dict.fromkeys(RUNS, LIKE))]
    assert "held_out_loss" not in [ranking.score for ranking in selection(runs, settings=settings)]


def test_scores_that_mislead_are_gone_and_the_leading_one_is_first():
    assert not {"alignment", "hubness", "isotropy"} & set(SCORES)
    assert next(iter(SCORES)) == "matching"


def test_an_order_that_no_labels_judge_says_how_often_such_orders_were_wrong():
    from vergence.stages.compare import order

    guessed, shown = order(Ranking("matching", ("a", "b"))), order(Ranking("lidar", ("a", "b"), experimental=True))
    assert "a guess" in guessed
    assert f"{max(WRONG):.0%}" in guessed
    assert "guess" not in shown
    assert "guess" not in order(Ranking("matching", ("a", "b"), 0.8, (0.1, 0.9)))

"""Texts judged: correlations, folds, ranks, TF-IDF and hard negatives, each against what is known."""

import math

import numpy as np
import pytest

from vergence.evaluation.mining import mined
from vergence.evaluation.sentences import classification, cosine, retrieval, sts
from vergence.evaluation.words import WordCounts


def rows(n, d=8, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d)).astype(np.float32)


def named(found, name, part="all"):
    return next(row for row in found if row.name == name and row.set == part)


def test_scores_that_rise_with_the_cosine_correlate_perfectly():
    first, second = rows(50), rows(50, seed=1)
    found = sts(first, second, np.exp(cosine(first, second)))
    assert named(found, "Spearman").value == pytest.approx(1.0)
    assert named(found, "Pearson").value < 1.0  # an exponential is no line


def test_the_interval_of_pearson_is_fishers():
    draw = np.random.default_rng(0)
    first, second = rows(103), rows(103, seed=1)
    gold = cosine(first, second) + 0.3 * draw.standard_normal(103)
    row = named(sts(first, second, gold), "Pearson")
    half = 1.959964 / math.sqrt(100)
    assert math.atanh(row.high) - math.atanh(row.value) == pytest.approx(half, rel=1e-6)
    assert math.atanh(row.value) - math.atanh(row.low) == pytest.approx(half, rel=1e-6)


def test_intervals_of_spearman_cover_the_correlation_of_the_population():
    draw, covered, truth = np.random.default_rng(0), 0, 6 / math.pi * math.asin(0.6 / 2)
    for _ in range(200):
        x = draw.standard_normal(80)
        y = 0.6 * x + 0.8 * draw.standard_normal(80)
        # Rows whose cosine is a given number: (1, 0) and (c, sqrt(1 - c^2)).
        c = np.tanh(x)
        row = named(sts(np.tile([1.0, 0.0], (80, 1)), np.stack([c, np.sqrt(1 - c**2)], 1), y), "Spearman")
        covered += row.low <= truth <= row.high
    assert 0.90 <= covered / 200 <= 0.99


def test_sets_are_judged_apart_and_their_mean_comes_last():
    first, second = rows(60), rows(60, seed=1)
    gold = cosine(first, second) * np.where(np.arange(60) < 30, 1, -1)
    found = sts(first, second, gold, sets=["a"] * 30 + ["b"] * 30)
    values = [named(found, "Spearman", part).value for part in ("a", "b", "mean")]
    assert values == pytest.approx([1.0, -1.0, 0.0])


def test_a_collapsed_encoder_correlates_with_nothing():
    same = np.ones((20, 4), np.float32)
    assert [row.value for row in sts(same, same, np.arange(20.0))] == [0.0, 0.0]


def test_nested_folds_give_chance_where_labels_say_nothing():
    labels = np.random.default_rng(3).integers(0, 2, 400)
    (row,) = classification(rows(400, 40), labels, folds=4)
    assert row.low < 0.5 < row.high
    (known,) = classification(rows(400, 40) + 3 * labels[:, None], labels, folds=4)
    assert known.value > 0.99


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_neither_the_scale_of_embeddings_nor_a_constant_added_to_them_moves_an_accuracy(scale):
    labels = np.arange(300) % 3
    h = rows(300, 12) + 0.8 * np.eye(12)[labels]
    (plain,) = classification(h, labels, folds=3)
    assert classification(scale * (h + 5.0), labels, folds=3)[0].value == pytest.approx(plain.value, abs=1 / 300)
    assert 0.5 < plain.value < 0.95


def test_a_given_split_is_kept():
    labels = np.array([0, 1] * 30)
    h = rows(60) + 5 * labels[:, None]
    parts = ["train"] * 40 + ["test"] * 20
    flipped = np.where(np.arange(60) < 40, labels, 1 - labels)
    assert classification(h, labels, parts=parts)[0].value == 1.0
    assert classification(h, flipped, parts=parts)[0].value == 0.0  # test labels trained nothing
    with pytest.raises(ValueError, match="two classes"):
        classification(h, np.zeros(60))


def test_ranks_of_the_right_text():
    documents = np.eye(12, dtype=np.float32)
    found = {row.name: row.value for row in retrieval(documents, documents)}
    assert found == {"recall@1": 1, "recall@5": 1, "recall@10": 1, "MRR": 1, "nDCG@10": 1}
    # Each query is nearest to the document after its own, and then to its own.
    queries = documents + 2 * np.roll(documents, 1, axis=1)
    found = {row.name: row.value for row in retrieval(queries, documents)}
    assert (found["recall@1"], found["recall@5"], found["MRR"]) == (0, 1, 0.5)
    assert found["nDCG@10"] == pytest.approx(1 / math.log2(3))


def test_equal_embeddings_rank_in_the_middle():
    same = np.ones((21, 4), np.float32)
    assert {row.name: row.value for row in retrieval(same, same)}["MRR"] == pytest.approx(1 / 11)


def test_rare_words_weigh_more():
    counts = WordCounts.of(["the sea", "the ship", "the whale"])
    made = counts.rows(["the sea"])
    assert made.sum() == pytest.approx(math.log(4 / 4) + math.log(4 / 2))
    similar = cosine(counts.rows(["the sea"] * 2), counts.rows(["sea", "the"]))
    np.testing.assert_allclose(similar, [1.0, 0.0], atol=1e-6)


def turned(angles):
    return np.stack([np.cos(angles), np.sin(angles)], 1).astype(np.float32)


def test_the_nearest_text_below_the_margin_is_the_hard_negative():
    documents = turned(np.array([0.1, 0.15, 0.4, 0.8, 2.0]))
    found = mined(turned(np.array([0.0])), documents, np.array([[0]]), margin=0.05)
    assert found.negatives.tolist() == [[2]]  # .15 is as near as the positive, .4 is far enough below it
    wider = mined(turned(np.array([0.0])), documents, np.array([[0]]), margin=0.05, count=2, skip=0)
    assert wider.negatives.tolist() == [[2, 3]]
    with pytest.raises(ValueError, match="No pair has 1 texts at least 3 below"):
        mined(turned(np.array([0.0])), documents, np.array([[0]]), margin=3.0)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_the_share_of_false_negatives_is_estimated(share):
    """Each query has a positive and, in a known share of cases, another text that is as related as it."""
    draw, n, d = np.random.default_rng(0), 400, 64
    center = draw.standard_normal((n, d))
    near = lambda c: c + 0.5 * draw.standard_normal(c.shape)
    hidden = np.where((np.arange(n) < share * n)[:, None], near(center), draw.standard_normal((n, d)))
    documents = np.concatenate([near(center), hidden]).astype(np.float32)
    found = mined(center.astype(np.float32), documents, np.arange(n)[:, None], margin=-1.0)
    assert found.false_share == pytest.approx(share, abs=0.1)

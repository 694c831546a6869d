"""Facts about trust: wrong answers that were once trusted, and what must be said of them."""

import math

import numpy as np
import pytest
from scipy.stats import entropy

from vergence.information import ESTIMATORS, Estimate, Information, estimate, info_nce
from vergence.information.agreement import nearby
from vergence.information.answers import Doubt, Trust, answer
from vergence.information.choice import automatic
from vergence.information.estimators import neighbors
from vergence.information.labels import label_entropy, pooled_terms, still_missed
from vergence.information.preprocessing import dithered, evenly
from vergence.information.samplers import correlated_gaussians, labeled_mixture
from vergence.information.unmixing import unmixed


def correlated(n: int, d: int, nats: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    pairs = correlated_gaussians(n, d=d, nats=nats, seed=seed)
    return pairs.x.numpy(), pairs.y.numpy()


# --- words ------------------------------------------------------------------------------------------------------------


def test_trust_is_a_word_that_carries_its_sentence():
    trust = Trust("low", "Because.")
    assert trust == trust.word == "low"
    assert trust.sentence == "Because."
    assert trust._asdict() == {"word": "low", "sentence": "Because."}


def test_the_word_is_the_lowest_of_the_width_and_the_doubts_and_every_doubt_is_said():
    options = {"ceiling": 9.0, "estimator": "neural", "n": 1000}
    assert answer(1.0, (0.95, 1.05), **options).trust == "high"
    assert answer(1.0, (0.8, 1.2), **options).trust == "moderate"
    assert answer(1.0, (0.5, 1.6), **options).trust == "low"
    doubts = (Doubt("moderate", "Some doubt."), Doubt("low", "More doubt."))
    found = answer(1.0, (0.95, 1.05), doubts=doubts, **options)
    assert (found.trust, found.trust.sentence) == ("low", "More doubt.")
    assert "Some doubt." in found.reasons


def test_a_saturated_lower_bound_has_no_upper_end():
    assert answer(4.0, (3.9, 4.1), ceiling=4.5, estimator="info_nce", n=100).interval == (3.9, math.inf)


# --- cases that were wrong --------------------------------------------------------------------------------------------


def test_a_common_random_sign_is_found_in_many_dimensions():
    x, y = correlated(3000, 10, 3.0)
    sign = np.random.default_rng(0).choice([-1, 1], size=(3000, 1))
    found = estimate(x, y * sign)
    assert found.nats > 1.5  # correlation sees none of it, the radius a tenth
    assert found.interval[0] <= 3.0 - math.log(2) * 0.5
    assert found.interval[1] >= 3.0 - math.log(2)


def test_few_pairs_in_many_dimensions_are_low_and_say_why():
    found = estimate(*correlated(200, 50, 1.0))
    assert found.trust == "low"
    assert "principal components" in found.trust.sentence
    assert found.interval[0] <= 1.0 <= found.interval[1]


def test_columns_mixed_after_a_nonlinear_map_are_separated_again():
    x, y = correlated(2000, 4, 3.0)
    random = np.random.default_rng(1)
    first, second = (np.linalg.qr(random.normal(size=(4, 4)))[0] for _ in range(2))
    mixed = np.tanh(1.5 * y @ first) @ second
    _, separated, notes = unmixed(x, mixed)
    assert "y were separated" in notes[0]
    scales = np.corrcoef(separated.T, (mixed @ second.T).T)[:4, 4:]
    np.testing.assert_allclose(np.abs(scales).max(1), 1, atol=0.05)


def test_gaussian_columns_are_left_as_they_are():
    x, y = correlated(1000, 4, 1.0)
    assert unmixed(x, y)[2] == ()


def test_a_label_in_twenty_dimensions_is_found_by_classifiers():
    random = np.random.default_rng(0)
    label = random.integers(0, 2, 2000)
    x = random.normal(size=(2000, 20))
    x[:, 3] += 2.0 * (label - 0.5)
    truth = labeled_mixture(100, separation=2.0).nats
    found = estimate(x, label)
    assert found.estimator == "labels"
    assert found.interval[0] <= truth <= found.interval[1]
    assert found.nats == pytest.approx(truth, abs=0.06)


def test_classifiers_say_nothing_of_an_independent_label_and_no_more_than_its_entropy():
    random = np.random.default_rng(0)
    label = random.integers(0, 3, 600)
    terms, weights = pooled_terms(random.normal(size=(600, 4)), label)
    assert terms.mean() < 0.02
    assert sum(weights.values()) == pytest.approx(1)
    terms, _ = pooled_terms(10.0 * np.eye(3)[label] + random.normal(size=(600, 3)), label)
    assert terms.mean() == pytest.approx(label_entropy(label), abs=0.02)


def test_intervals_of_the_same_law_at_two_sizes_overlap_however_many_columns():
    random = np.random.default_rng(0)
    loading = random.normal(size=(3, 120))
    ends = []
    for n in (200, 1500):
        shared = random.normal(size=(n, 3)) @ loading
        found = estimate(*(shared + random.normal(size=shared.shape) for _ in range(2)))
        assert found.trust != "high"
        ends.append(found.interval)
    assert max(low for low, _ in ends) <= min(high for _, high in ends)


# --- the open table ---------------------------------------------------------------------------------------------------


def test_old_names_still_work():
    assert Estimate is Information
    x, y = correlated(300, 1, 0.5)
    assert estimate(x, y, bound="neighbors") == estimate(x, y, bound="neighbors")


def test_an_estimator_or_a_bound_of_the_user_serves_as_a_row():
    x, y = correlated(300, 2, 0.5)

    def constant(x, y, *, seed=0):
        return answer(float(seed), (0.0, 1.0), ceiling=9.0, estimator="constant", n=len(x))

    assert estimate(x, y, bound=constant, seed=7).nats == 7
    mine = lambda scores: info_nce(scores)
    options = {"critic": lambda x, y: x @ y.T, "batch": 50}
    # A named row with a ceiling is averaged over batches; a function is computed over all unseen pairs.
    assert estimate(x, y, bound=mine, **options).nats == pytest.approx(
        estimate(x, y, bound="info_nce", **options).nats, abs=0.05
    )


def test_every_row_of_the_table_takes_two_variables_and_answers_with_information():
    x, y = correlated(400, 1, 0.7)
    discrete = (x > 0).astype(int), np.digitize(y, [-0.5, 0.5])
    for name, row in ESTIMATORS.items():
        found = row(*(part.astype(float) for part in (discrete if name in ("table", "labels") else (x, y))))
        assert isinstance(found, Information)
        assert found.trust in ("low", "moderate", "high")
        assert found.interval[0] <= found.nats <= found.interval[1]


def test_a_hundred_thousand_pairs_are_drawn_evenly_and_that_is_said(monkeypatch):
    monkeypatch.setattr("vergence.information.choice.MOST_PAIRS", 600)
    monkeypatch.setattr("vergence.information.estimators.MOST_PAIRS", 600)
    x, y = correlated(2000, 3, 0.5)
    y = y * np.random.default_rng(0).choice([-1, 1], size=y.shape)
    found = estimate(x, y)
    assert any("600 of the 2000 pairs were used, evenly spread" in reason for reason in found.reasons)


def test_what_classifiers_miss_is_the_rest_of_their_gains():
    curve = lambda power: [1 - 0.1 / share**power for share in (0.25, 0.5, 1.0)]
    assert still_missed(*curve(1.0)) == pytest.approx(0.1)
    assert still_missed(*curve(0.5)) == pytest.approx(0.1)
    assert still_missed(0.19, 0.2, 0.25) == pytest.approx(4 * 0.05)  # gains that still grow: much may be missed
    assert still_missed(0.1, 0.3, 0.25) == 0  # noise


def test_a_parity_of_three_columns_is_covered_and_not_trusted_high():
    random = np.random.default_rng(5)
    x = random.normal(size=(1000, 3))
    label = (np.prod(x, axis=1) > 0) ^ (random.random(1000) < 0.1)
    found, truth = estimate(x, label), math.log(2) - float(entropy([0.1, 0.9]))
    assert found.interval[0] <= truth <= found.interval[1]
    assert found.trust != "high"


def test_ties_are_broken_at_random_without_loss():
    random = np.random.default_rng(6)
    x = random.normal(size=(1500, 2))
    y = 0.8 * x + 0.6 * random.normal(size=x.shape)
    grades = [np.digitize(rows, [-1.2, -0.3, 0.4, 1.3]).astype(float) for rows in (x, y)]
    ranks = dithered(grades[0])
    assert all(np.array_equal(np.sort(column), np.arange(1500)) for column in ranks.T)
    higher = grades[0][:, None] > grades[0]
    assert (ranks[:, None] > ranks)[higher].all()
    # Of one column the table is exact; two columns share twice as much.
    one = estimate(grades[0][:, 0], grades[1][:, 0])
    assert one.estimator == "table"
    both = automatic(*(np.hstack([rows, random.normal(size=(1500, 1)).round()]) for rows in grades))
    assert "Ties were broken at random, which loses nothing." in both.reasons
    assert both.interval[0] <= 2 * one.nats <= both.interval[1]


def test_neighbors_are_asked_of_the_columns_that_matter_even_among_few():
    random = np.random.default_rng(12)
    x = random.normal(size=(1500, 3))
    y = np.floor(1.5 * x[:, :1]) + 0.2 * random.normal(size=(1500, 1))  # steps, which no critic follows
    alone = neighbors(x[:, :1], y)
    assert alone.nats in [near.nats for near in nearby(x, y)]


def test_rows_whose_classes_alternate_are_drawn_as_well_as_shuffled_ones(monkeypatch):
    monkeypatch.setattr("vergence.information.estimators.MOST_PAIRS", 500)
    random, label = np.random.default_rng(0), np.arange(1000) % 2
    x = random.normal(size=(1000, 3)) + label[:, None]
    rows = evenly(1000, 500)
    assert (np.diff(rows) > 0).all()
    assert abs(label[rows].mean() - 0.5) < 3 * 0.5 / math.sqrt(500)  # every second row would be of one class
    order = random.permutation(1000)
    given, shuffled = estimate(x, label), estimate(x[order], label[order])
    assert given.interval[0] <= shuffled.nats <= given.interval[1]


def test_the_sign_of_a_product_among_inert_columns_is_found_and_covered():
    random = np.random.default_rng(3)
    x, y = random.normal(size=(2, 2000, 4))
    flipped = random.random(2000) < 0.1
    y[:, 2] = np.abs(y[:, 2]) * np.sign(x[:, 0] * x[:, 3]) * np.where(flipped, -1, 1)
    found = estimate(x, y)
    truth = math.log(2) + 0.1 * math.log(0.1) + 0.9 * math.log(0.9)
    assert found.interval[0] <= truth <= found.interval[1]
    assert found.nats > 0.7 * truth  # combinations of all products, which are mostly noise, gave half

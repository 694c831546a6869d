"""Classifiers on frozen features: equalities with closed forms and with scikit-learn, invariances, and errors."""

import math

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import NearestCentroid

from vergence import evaluation
from vergence.diagnostics.estimate import wilson
from vergence.evaluation import EVALUATIONS, few_labels, knn, label_curve, linear_probe, nearest_center


def blobs(n=300, d=8, classes=3, noise=1.0, seed=0):
    generator = np.random.default_rng(seed)
    centres = 3 * np.random.default_rng(99).normal(size=(classes, d))
    labels = generator.integers(0, classes, n)
    return centres[labels] + noise * generator.normal(size=(n, d)), labels


def splits(**options):
    return (*blobs(seed=1, **options), *blobs(seed=2, **options))


@pytest.mark.parametrize("classifier", [linear_probe, knn, nearest_center])
def test_separated_classes_are_all_found_from_arrays_and_from_tensors(classifier):
    arrays = splits(noise=0.01)
    tensors = tuple(torch.from_numpy(array) for array in arrays)
    assert classifier(*arrays).accuracy == classifier(*tensors).accuracy == 1.0
    np.testing.assert_array_equal(classifier(*arrays).predictions, arrays[3])


def test_nearest_center_is_the_linear_classifier_of_its_weight_and_bias():
    train_h, train_labels, test_h, test_labels = splits(noise=4.0)
    result = nearest_center(train_h, train_labels, test_h, test_labels, normalize=False)
    linear = result.classes[(test_h @ result.weight.T + result.bias).argmax(axis=1)]
    theirs = NearestCentroid().fit(train_h, train_labels).predict(test_h)
    np.testing.assert_array_equal(result.predictions, linear)
    np.testing.assert_array_equal(result.predictions, theirs)


def test_the_probe_is_scikit_learns_minimiser_and_does_not_see_a_shift():
    train_h, train_labels, test_h, test_labels = splits(noise=5.0)
    shifted = linear_probe(train_h + 100, train_labels, test_h + 100, test_labels, regularization=1e-3)
    plain = linear_probe(train_h, train_labels, test_h, test_labels, regularization=1e-3)
    scale = math.sqrt(np.mean((train_h - train_h.mean(axis=0)) ** 2))
    theirs = LogisticRegression(C=1 / (1e-3 * len(train_h)), tol=1e-8, max_iter=5000)
    theirs.fit(train_h / scale, train_labels)
    np.testing.assert_array_equal(plain.predictions, shifted.predictions)
    assert np.mean(plain.predictions == theirs.predict(test_h / scale)) > 0.995


def test_the_penalty_is_chosen_heavier_when_labels_are_noise_than_when_they_are_clean():
    train_h, train_labels, test_h, test_labels = splits(n=120, d=60, noise=0.5)
    noisy = np.random.default_rng(0).permutation(train_labels)
    clean = linear_probe(train_h, train_labels, test_h, test_labels)
    assert clean.choices["regularization"] in (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
    assert clean.accuracy == 1.0
    assert linear_probe(train_h, noisy, test_h, test_labels).accuracy < 0.6


def test_the_saga_protocol_is_available_by_name_and_others_are_refused():
    data = splits()
    assert linear_probe(*data, protocol="saga").choices == {"C": 10.0, "protocol": "saga"}
    with pytest.raises(ValueError, match="Known: lbfgs, saga"):
        linear_probe(*data, protocol="sgd")


def test_knn_equals_a_dense_loop():
    train_h, train_labels, test_h, test_labels = splits(n=80, noise=5.0)
    result = knn(train_h, train_labels, test_h, test_labels, k=7, temperature=0.2)
    units = [h / np.linalg.norm(h, axis=1, keepdims=True) for h in (train_h, test_h)]
    for query, predicted in zip(units[1], result.predictions, strict=True):
        similarity = units[0] @ query
        nearest = np.argsort(-similarity)[:7]
        votes = np.zeros(3)
        np.add.at(votes, train_labels[nearest], np.exp(similarity[nearest] / 0.2))
        assert votes.argmax() == predicted


def test_knn_does_not_overflow_at_a_tiny_temperature():
    train_h, train_labels, test_h, test_labels = (array.astype(np.float32) for array in splits(noise=0.1))
    assert knn(train_h, train_labels, test_h, test_labels, temperature=1e-4).accuracy == 1.0


def test_wilson_matches_its_textbook_values():
    assert wilson(0.0, 10) == pytest.approx((0.0, 0.2775), abs=1e-4)
    assert wilson(0.5, 10) == pytest.approx((0.2366, 0.7634), abs=1e-4)
    assert wilson(1.0, 10) == pytest.approx((0.7225, 1.0), abs=1e-4)


def test_the_interval_covers_the_accuracy_of_the_population_in_most_samples():
    train_h, train_labels = blobs(seed=1, noise=6.0)
    truth = nearest_center(train_h, train_labels, *blobs(n=100_000, seed=7, noise=6.0)).accuracy
    intervals = [
        nearest_center(train_h, train_labels, *blobs(n=200, seed=s, noise=6.0)).interval for s in range(10, 60)
    ]
    covered = sum(low <= truth <= high for low, high in intervals)
    assert covered >= 43  # 47.5 expected; fewer than 43 of 50 has probability 0.01


def test_few_labels_uses_that_many_labels_of_each_class():
    train_h, train_labels, test_h, test_labels = splits(noise=5.0)
    seen = []

    def spy(h, labels, *test):
        seen.append(np.bincount(labels).tolist())
        return nearest_center(h, labels, *test)

    result = few_labels(train_h, train_labels, test_h, test_labels, per_class=4, draws=3, classifier=spy)
    assert seen == [[4, 4, 4]] * 3
    assert result.interval[0] <= result.accuracy <= result.interval[1]
    assert result.accuracy < nearest_center(train_h, train_labels, test_h, test_labels).accuracy


def test_a_curve_of_labels_ends_with_all_of_them():
    train_h, train_labels, test_h, test_labels = splits(noise=5.0)
    curve = label_curve(train_h, train_labels, test_h, test_labels, counts=(1, 20, 1000), draws=5)
    assert [point.choices["per_class"] for point in curve] == [1, 20, 100]
    assert curve[0].accuracy < curve[1].accuracy < curve[2].accuracy + 0.05
    assert curve[0].choices["spread"] > curve[1].choices["spread"]  # luck counts for more where labels are fewer
    assert curve[1].accuracy == few_labels(train_h, train_labels, test_h, test_labels, per_class=20, draws=5).accuracy
    assert curve[2].accuracy == nearest_center(train_h, train_labels, test_h, test_labels).accuracy


def test_the_interval_of_few_labels_covers_what_other_labels_and_other_test_samples_would_give():
    truth = few_labels(*blobs(n=4000, noise=5.0, seed=50), *blobs(n=4000, noise=5.0, seed=51), draws=200).accuracy
    covered = 0
    for seed in range(40):
        train, test = blobs(n=400, noise=5.0, seed=2 * seed + 100), blobs(n=60, noise=5.0, seed=2 * seed + 101)
        low, high = few_labels(*train, *test, draws=10, seed=seed).interval
        covered += low <= truth <= high
    assert covered >= 35


def test_every_row_of_the_table_takes_both_splits_and_gives_accuracies():
    for evaluate in EVALUATIONS.values():
        found = evaluate(*splits())
        for accuracy in found if isinstance(found, tuple) else (found,):
            assert accuracy.interval[0] <= accuracy.accuracy <= accuracy.interval[1]


def test_former_spellings_are_the_same_functions():
    assert evaluation.nearest_centre is nearest_center
    plain = linear_probe(*splits(noise=3.0), regularization=1e-2)
    assert linear_probe(*splits(noise=3.0), regularisation=1e-2).accuracy == plain.accuracy


def test_errors_say_what_came():
    train_h, train_labels, test_h, test_labels = splits()
    with pytest.raises(ValueError, match=r"300 rows, but train_labels has the shape \[299\]"):
        knn(train_h, train_labels[1:], test_h, test_labels)
    with pytest.raises(ValueError, match="needs two classes"):
        knn(train_h, 0 * train_labels, test_h, test_labels)
    with pytest.raises(ValueError, match="8 columns, test_h has 7"):
        knn(train_h, train_labels, test_h[:, 1:], test_labels)
    broken = test_h.copy()
    broken[17, 3] = np.nan
    with pytest.raises(ValueError, match="1 of 300 rows of test_h hold NaN or infinity, first at row 17"):
        knn(train_h, train_labels, broken, test_labels)


def test_few_labels_of_centers_are_those_of_the_classifier_on_every_draw():
    generator = np.random.default_rng(3)
    labels = np.repeat(np.arange(4), 30)
    h = (generator.normal(size=(4, 6))[labels] + 2 * generator.normal(size=(120, 6))).astype(np.float32)
    options = {"per_class": 3, "draws": 5, "seed": 2}
    together = few_labels(h, labels, h[::2], labels[::2], **options)
    apart = few_labels(h, labels, h[::2], labels[::2], classifier=lambda *parts: nearest_center(*parts), **options)
    np.testing.assert_array_equal(together.hits, apart.hits)


@pytest.mark.parametrize(
    "options", [{"k": 0}, {"k": -1}, {"temperature": 0.0}, {"temperature": math.nan}, {"temperature": math.inf}]
)
def test_neighbors_that_cannot_vote_are_refused(options):
    with pytest.raises(ValueError, match="at least 1 neighbor and a temperature above 0"):
        knn(*splits(), **options)


@pytest.mark.parametrize("penalty", [-1.0, math.nan, math.inf])
def test_a_penalty_that_has_no_minimum_is_refused(penalty):
    with pytest.raises(ValueError, match="regularization must be"):
        linear_probe(*splits(), regularization=penalty)


@pytest.mark.parametrize("classifier", [linear_probe, knn, nearest_center])
def test_features_with_an_imaginary_part_are_refused(classifier):
    h, labels, *test = splits()
    with pytest.raises(ValueError, match="real numbers, not complex128"):
        classifier(h + 1j, labels, *test)

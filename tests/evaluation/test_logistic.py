"""The solver of linear probes: scikit-learn's minimum in fewer steps, in the span of few rows, from any start."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from vergence.evaluation import classifiers, linear_probe, logistic
from vergence.evaluation.classifiers import PENALTIES
from vergence.evaluation.logistic import Logistic, Moments


def rows(n=600, d=30, classes=4, noise=1.0, seed=0):
    """Classes on a covariance whose eigenvalues span six orders of magnitude, as those of pixels do."""
    generator = np.random.default_rng(seed)
    scales = np.logspace(0, -3, d)
    centers = np.random.default_rng(9).normal(size=(classes, d)) * scales
    labels = generator.integers(0, classes, n)
    x = centers[labels] + noise * scales * generator.normal(size=(n, d))
    x = (x - x.mean(axis=0)) / x.std()
    return x, labels


def their_minimum(x, labels, penalty):
    model = LogisticRegression(C=1 / (penalty * len(x)), tol=1e-9, max_iter=100_000).fit(x, labels)
    chances = model.predict_proba(x)[np.arange(len(x)), labels]
    return model, float(-np.log(chances).mean() + penalty / 2 * np.square(model.coef_).sum())


@pytest.mark.parametrize("noise", [0.2, 1.5])  # nearly all rows right, and a third of them wrong
@pytest.mark.parametrize("penalty", [1e-1, 1e-3])
def test_the_minimum_is_scikit_learns(noise, penalty):
    x, labels = rows(noise=noise)
    _, value = their_minimum(x, labels, penalty)
    problem = Logistic.of(torch.from_numpy(x), torch.from_numpy(labels), 4)
    assert problem.fit(penalty, tolerance=1e-7).value == pytest.approx(value, abs=2e-6)
    warm = problem.fit(penalty, start=problem.fit(1.0), tolerance=1e-7)
    assert warm.value == pytest.approx(value, abs=2e-6)


def test_where_rows_are_in_doubt_it_takes_a_fraction_of_the_steps():
    x, labels = rows(n=2000, d=200, noise=6.0)
    labels = np.where(
        np.random.default_rng(1).random(2000) < 0.7, np.random.default_rng(2).integers(0, 4, 2000), labels
    )
    ours = Logistic.of(torch.from_numpy(x), torch.from_numpy(labels), 4).fit(1e-4, tolerance=1e-6)
    theirs = LogisticRegression(C=1 / (1e-4 * len(x)), tol=1e-6, max_iter=10_000).fit(x, labels)
    assert ours.steps < theirs.n_iter_[0] / 4


def test_where_rows_are_hardly_more_than_columns_and_classes_many_the_steps_stay_few():
    x, labels = rows(n=330, d=300, classes=20, noise=3.0)
    problem = Logistic.of(torch.from_numpy(x), torch.from_numpy(labels), 20)
    fit, steps = None, []
    for penalty in (1e-1, 1e-2, 1e-3):
        fit = problem.fit(penalty, start=fit, tolerance=1e-5)
        steps.append(fit.steps)
        assert fit.value == pytest.approx(their_minimum(x, labels, penalty)[1], abs=2e-6)
    assert max(steps) < 150


def test_few_rows_are_probed_in_their_span_with_the_same_predictions():
    x, labels = rows(n=40, d=200, noise=2.0)
    unseen, truth = rows(n=500, d=200, noise=2.0, seed=1)
    scale = np.sqrt(np.mean((x - x.mean(axis=0)) ** 2))
    theirs = LogisticRegression(C=1 / (1e-2 * len(x)), tol=1e-9, max_iter=100_000)
    theirs.fit((x - x.mean(axis=0)) / scale, labels)
    ours = linear_probe(x, labels, unseen, truth, regularization=1e-2)
    np.testing.assert_array_equal(ours.predictions, theirs.predict((unseen - x.mean(axis=0)) / scale))


def test_two_classes_are_penalized_as_scikit_learn_does():
    x, labels = rows(classes=2, noise=3.0)
    unseen, truth = rows(classes=2, noise=3.0, seed=1)
    scale = np.sqrt(np.mean(x**2))
    theirs = LogisticRegression(C=1 / (1e-1 * len(x)), tol=1e-9).fit(x / scale, labels)
    ours = linear_probe(x, labels, unseen, truth, regularization=1e-1)
    assert np.mean(ours.predictions == theirs.predict(unseen / scale)) > 0.997
    assert ours.choices["regularization"] == 1e-1


def test_moments_of_some_rows_are_those_of_all_less_those_of_the_others():
    x = torch.from_numpy(3 + rows(n=90)[0])
    left = Moments.of(x) - Moments.of(x[:40])
    torch.testing.assert_close(left.gram, x[40:].T @ x[40:])
    assert left.mean_square == pytest.approx(float(x[40:].var(dim=0, correction=0).mean()))
    both = left + Moments.of(x[:40])
    torch.testing.assert_close(both.gram, x.T @ x)
    assert both.count == 90


def test_the_beginning_of_a_problem_is_the_problem_of_its_first_rows():
    x, labels = (torch.from_numpy(part) for part in rows(n=90))
    begun, apart = Logistic.of(x, labels, 4).beginning(60), Logistic.of(x[:60], labels[:60], 4)
    torch.testing.assert_close(begun.gram, apart.gram)
    assert begun.fit(1e-2, tolerance=1e-7).value == pytest.approx(apart.fit(1e-2, tolerance=1e-7).value, abs=1e-9)


@pytest.mark.parametrize("noise", [0.3, 1.5, 4.0])
@pytest.mark.parametrize("n", [60, 400])
def test_ending_the_search_early_chooses_what_all_penalties_would(noise, n):
    x, labels = (torch.from_numpy(part) for part in rows(n=n, noise=noise, seed=3))
    seen, held = classifiers._held_out(labels, 4, seed=0)
    problem = Logistic.of(x[seen], labels[seen], 4)
    right, fit = {}, None
    for penalty in reversed(PENALTIES):
        fit = problem.fit(penalty, start=fit, tolerance=classifiers.ROUGH)
        right[penalty] = int((fit.predictions(x[held]) == labels[held]).sum())
    chosen = classifiers._chosen(problem, x[held], labels[held], 1.0)
    assert right[chosen.penalty] == max(right.values())


def test_columns_that_say_the_same_do_not_stop_the_solver():
    x, labels = (torch.from_numpy(part) for part in rows(d=5))
    twice = torch.cat([x, x, torch.zeros_like(x)], dim=1).float() / 2**0.5  # the same products of rows
    plain, doubled = (Logistic.of(part, labels, 4).fit(1e-6) for part in (x, twice))
    assert doubled.value == pytest.approx(plain.value, abs=1e-4)


@pytest.mark.parametrize("turned", [True, False])
def test_in_the_coordinates_of_few_rows_the_loss_and_its_gradient_are_the_same(turned):
    x, labels = (torch.from_numpy(each) for each in rows(n=60, d=8))
    problem = Logistic.of(x, labels, 4)
    generator = torch.Generator().manual_seed(0)
    rounded = torch.randn(4, 9, dtype=torch.float64, generator=generator)
    factor = torch.linalg.cholesky(problem.gram + torch.eye(8, dtype=torch.float64)) if turned else None
    root = torch.eye(8, dtype=torch.float64) if factor is None else factor
    inverse = torch.linalg.inv(root)
    value, of_weight, of_bias = problem._loss(rounded[:, :8] @ inverse, rounded[:, 8], 0.3)
    ours, slope = problem._turned_loss(factor, 0.3)(rounded.numpy().ravel())
    assert ours == pytest.approx(value, rel=1e-12)
    expected = torch.cat([of_weight @ inverse.T, of_bias[:, None]], dim=1)
    np.testing.assert_allclose(slope.reshape(4, 9), expected, rtol=1e-9, atol=1e-12)


def test_the_loss_of_many_blocks_of_rows_is_that_of_one(monkeypatch):
    x, labels = (torch.from_numpy(each) for each in rows(n=130, d=8))
    problem, weight = Logistic.of(x, labels, 4), torch.ones(4, 8, dtype=torch.float64) * torch.arange(4)[:, None]
    whole = problem._loss(weight, torch.arange(4).double(), 0.1)
    monkeypatch.setattr(logistic, "NEAR", 8 * 32)
    for once, blocks in zip(whole, problem._loss(weight, torch.arange(4).double(), 0.1), strict=True):
        np.testing.assert_allclose(blocks, once, rtol=1e-10, atol=1e-12)

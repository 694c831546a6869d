"""ContrastiveEncoder keeps scikit-learn's conventions."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from vergence import ContrastiveEncoder

SMALL = {"epochs": 2, "backbone": {"hidden": (16,)}, "random_state": 0}


@parametrize_with_checks([ContrastiveEncoder(epochs=1, encoder="mlp", backbone={"hidden": (8,)}, random_state=0)])
def test_scikit_learn_finds_nothing_to_object_to(estimator, check):
    check(estimator)


def test_it_works_in_a_pipeline_and_a_grid_search():
    X, y = load_digits(return_X_y=True)
    X, y = X[:300], y[:300]
    pipeline = make_pipeline(ContrastiveEncoder(**SMALL), LogisticRegression(max_iter=500))
    search = GridSearchCV(pipeline, {"contrastiveencoder__method": ["simclr", "barlow_twins"]}, cv=2)
    search.fit(X, y)
    assert search.best_score_ > 0.5


def test_the_same_random_state_gives_the_same_representation():
    X = load_digits().data[:100]
    first, second = (ContrastiveEncoder(**SMALL).fit(X).transform(X) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_images_are_encoded_as_images():
    images = (load_digits().images[:64] * 15).astype(np.uint8)
    encoder = ContrastiveEncoder(epochs=1, batch=32, random_state=0).fit(images)
    assert encoder.config_.encoder == "convnet"
    assert encoder.transform(images).shape == (64, 128)


def test_a_fitted_estimator_survives_a_copy():
    X = load_digits().data[:60]
    encoder = ContrastiveEncoder(**SMALL).fit(X)
    copied = pickle.loads(pickle.dumps(encoder))
    np.testing.assert_array_equal(encoder.transform(X), copied.transform(X))
    assert clone(encoder).get_params() == encoder.get_params()


def test_labels_are_never_used():
    X, y = load_digits(return_X_y=True)
    first, second = (ContrastiveEncoder(**SMALL).fit(X[:80], labels).transform(X[:80]) for labels in (None, y[:80]))
    np.testing.assert_array_equal(first, second)


def test_an_unknown_method_is_explained_when_it_is_fitted():
    with pytest.raises(ValueError, match="Unknown method"):
        ContrastiveEncoder(method="simclrr").fit(np.random.default_rng(0).normal(size=(10, 3)))

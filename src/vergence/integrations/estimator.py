"""ContrastiveEncoder: an encoder as a scikit-learn transformer, for pipelines and grid searches."""

from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from vergence import features, views
from vergence.config import Config, Optim, objective_options
from vergence.data import from_arrays
from vergence.learning import loop, optimizers
from vergence.runs import assembly
from vergence.tables import name_of


class ContrastiveEncoder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Learn a representation of ``X`` from two views of each sample; labels are never used.

    ``X`` is ``[n, d]`` (vectors), ``[n, height, width]`` or ``[n, height, width, channels]`` (images, bytes or numbers
    in [0, 1]). ``transform`` gives ``h``, the encoder's output. ``method``, ``encoder``, ``views``, ``objective`` are
    names of rows or objects of yours: a network, a recipe or a transform of one sample, a loss of two embeddings.
    Options go in the mappings ``objective``, ``view`` and ``backbone``, as in a config.
    """

    # No types here: scikit-learn sets anything first and validates in fit.
    def __init__(  # type: ignore[no-untyped-def]
        self,
        method="simclr",
        *,
        encoder="auto",
        views="auto",
        epochs=50,
        batch=256,
        learning_rate=None,
        objective=None,
        view=None,
        backbone=None,
        random_state=None,
    ):
        self.method = method
        self.encoder = encoder
        self.views = views
        self.epochs = epochs
        self.batch = batch
        self.learning_rate = learning_rate
        self.objective = objective
        self.view = view
        self.backbone = backbone
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> "ContrastiveEncoder":
        """Train on ``X``; ``y`` is ignored."""
        X = self._validated(X, reset=True)
        samples = from_arrays(X)
        parts = assembly.assemble(self._config(len(X)), samples)
        optimizer = optimizers.optimizer(parts.learner, parts.config.optim)
        self.losses_ = np.array(
            [step.loss for step in loop.fit(parts.learner, optimizer, samples, parts.recipe, parts.config)]
        )
        self.config_ = parts.config
        self.shape_ = X.shape[1:]
        # Plain arrays, so that a fitted estimator copies, pickles and compares like any other.
        self.weights_ = {name: tensor.cpu().numpy() for name, tensor in parts.learner.encoder.state_dict().items()}
        self._n_features_out = parts.learner.encoder.width
        return self

    def transform(self, X: Any) -> np.ndarray:
        """The representation of every sample, ``[n, width]``."""
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        samples = from_arrays(X)
        recipe = views.build(self.config_.views, **self.config_.view)
        encoder = assembly.build_encoder(self.config_, samples, recipe)
        encoder.load_state_dict({name: torch.as_tensor(array) for name, array in self.weights_.items()})
        h = features.extract(encoder, samples, recipe).h.numpy()
        return h.astype(X.dtype) if X.dtype.kind == "f" else h

    def _validated(self, X: Any, *, reset: bool) -> np.ndarray:
        X = validate_data(self, X, reset=reset, allow_nd=True, dtype=[np.float32, np.float64, np.uint8])
        if reset and len(X) < 2:
            raise ValueError(f"Contrast needs at least 2 samples, got n_samples = {len(X)}.")
        return X

    def _config(self, n: int) -> Config:
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        return Config(
            data="memory",
            method=name_of("methods", self.method),
            encoder=name_of("encoders", self.encoder),
            views=name_of("views", self.views),
            epochs=self.epochs,
            batch=min(self.batch, n),
            seed=seed,
            objective=objective_options(self.objective),
            view=dict(self.view or {}),
            backbone=dict(self.backbone or {}),
            optim=Optim(learning_rate=self.learning_rate),
        )

"""Learners: a method with weights, which makes a loss of views; its encoder is kept after training.

A learner has ``encoder`` (what is exported), ``branches`` (what makes the embedding of each view, the last one for all
that follow), ``outputs(views)``, ``loss(outputs, labels)`` and ``after_step(progress)``. Outputs are tensors of numbers
with a row for each sample, and ``loss`` gathers them, so that batches may be encoded in chunks and shared by processes.
A row of the table builds a learner for a problem; its keywords are the method's hyperparameters where no objective has
them.
"""

from vergence.learning.adversarial import bigan
from vergence.learning.context import context
from vergence.learning.infomax import infomax
from vergence.learning.masked import i_jepa, mae
from vergence.learning.pretext import colorization, rotation
from vergence.learning.problem import Problem
from vergence.learning.reference import classifier, untrained
from vergence.learning.two_modal import two_modal
from vergence.learning.two_view import Learner, two_view
from vergence.tables import Table

LEARNERS = Table(
    "learner",
    {
        "two_view": two_view,
        "two_modal": two_modal,
        "context": context,
        "infomax": infomax,
        "mae": mae,
        "i_jepa": i_jepa,
        "rotation": rotation,
        "colorization": colorization,
        "bigan": bigan,
        "classifier": classifier,
        "untrained": untrained,
    },
    room="learners",
)

GLOSSARY = {
    "bound": "which bound on mutual information is raised: info_nce, nwj or donsker_varadhan",
    "critic": "what scores a pair of representations: bilinear, separable or concat",
    "target": "nats that the bound is brought to; none to raise it as far as it goes",
    "cells": "cells along each side of the image whose color is predicted",
    "masked": "share of the patches that the encoder does not see",
    "decoder_width": "width of the transformer that predicts what was not seen",
    "decoder_depth": "its number of blocks",
    "target_momentum": "weight of the past in the moving average that makes the targets; it rises to 1",
    "latent": "width of the generator's input",
    "hidden": "width of the hidden layers of generator and discriminator",
}

__all__ = ["GLOSSARY", "LEARNERS", "Learner", "Problem"]

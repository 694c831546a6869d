"""Small learners for tests: every row of METHODS with narrow heads, and two views of random images."""

import torch
from torch import nn

from vergence.encoders import build
from vergence.learning import LEARNERS, Problem
from vergence.methods import METHODS, customized

SHAPE = (3, 4, 4)


def narrow(name: str, **objective) -> nn.Module:
    """A method's learner with small heads, so that the whole table takes seconds."""
    row = METHODS[name]
    heads = {"projector": (16, 8), "predictor": (8, 8) if row.predictor else (), "queue": 32 if row.queue else 0}
    heads |= {"prototypes": 8} if row.prototypes else {}
    row = customized(name, heads=heads if row.objective else {}, objective=objective)
    torch.manual_seed(0)
    backbone = {"width": 16, "depth": 1, "patch": 1} if row.encoder == "vit" else {"hidden": (16,)}
    problem = Problem(
        lambda view: build("mlp" if row.encoder == "auto" else row.encoder, SHAPE, **backbone), SHAPE, classes=3
    )
    return LEARNERS[row.learner](row, problem, **({} if row.objective else row.hyperparameters))


def views(n: int = 12, seed: int = 0) -> tuple[list[torch.Tensor], torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(n, *SHAPE, generator=generator)
    noise = [0.1 * torch.rand(n, *SHAPE, generator=generator) for _ in range(2)]
    return [0.9 * x + part for part in noise], torch.arange(n) % 3

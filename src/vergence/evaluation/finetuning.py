"""Fine-tuning: the encoder moves together with a linear head, on labels that may be few."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vergence.counters import sample_keys, seed_from, shuffled
from vergence.evaluation.accuracy import Accuracy, Array, as_numpy, scored
from vergence.evaluation.classifiers import fitted_probe

BATCH = 64  # labels are few: a batch of hundreds would be all of them
EPOCHS = 40  # SimCLR (Chen et al. 2020, App. B.5) takes 60 with 1 % and 30 with 10 % of the labels
FEWEST, MOST = 150, 2000  # steps, however few or many the labels are
RATE = 1e-3  # of AdamW, after a twentieth of warm-up, to 0 along a cosine
FRESH = 3e-3  # the same for an encoder that has learned nothing yet: above 1e-3 by .016 with 100 and with 1,000 labels
# Labels from which on the encoder moves at the whole rate, chosen like FRESH on training images of CIFAR-10 that were
# held out: with 100 labels a tenth was best (.363, the whole rate .352), with 1,000 all of it (.487, .3 of it .474).
ENOUGH = 1000
ENCODED = 512  # samples encoded at once

Drawn = Callable[[Tensor, Tensor], Tensor]  # samples and keys to a view of each
Told = Callable[[float], None]


def fine_tuning(
    train_x: Array,
    train_labels: Array,
    test_x: Array,
    test_labels: Array,
    *,
    encoder: nn.Module | None = None,
    steps: int = 0,
    rate: float = RATE,
    seed: int = 0,
) -> Accuracy:
    """Accuracy after an encoder and a linear head were trained on labeled samples, the head from a linear probe.

    ``train_x`` and ``test_x`` are what the encoder takes; without one they are features, and the head alone is trained.
    ``steps`` 0 is 40 passes over the labels, at least 150 steps and at most 2000. With few labels the encoder hardly
    moves: see :func:`share_for`. The encoder that is given stays as it is: a copy moves.

    References:
        Chen et al. (2020), App. B.5, the protocol; Kumar et al. (2022), the head first. https://arxiv.org/abs/2202.10054
    """
    values, codes = np.unique(as_numpy(train_labels), return_inverse=True)
    if len(values) < 2:
        raise ValueError(f"All {len(codes)} training labels are {values[0]!r}: a classifier needs two classes")
    inputs = [torch.as_tensor(as_numpy(x)) for x in (train_x, test_x)]
    inputs = [x.float() if encoder is None else x for x in inputs]
    start = headed(encoder or nn.Identity(), inputs[0], torch.from_numpy(codes), classes=len(values), probe=True)
    share = share_for(len(codes))
    model = fine_tuned(start, inputs[0], torch.from_numpy(codes), steps=steps, rate=rate, share=share, seed=seed)
    found = values[classified(model, inputs[1]).numpy()]
    return scored(found, as_numpy(test_labels), "fine-tuning", rate=rate)


class Head(nn.Linear):
    """A linear head with the penalty on its weights, times ||W||^2 / 2, that it was fitted with."""

    penalty = 0.0


def headed(
    encoder: nn.Module, x: Tensor, labels: Tensor, *, classes: int, probe: bool, plain: Drawn | None = None
) -> nn.Sequential:
    """A copy of an encoder with a linear head: the linear probe on its features, or as torch initializes it.

    From a random head the first steps would bend features that were good (Kumar et al. 2022). The probe's penalty is
    chosen as :func:`linear_probe` does and stays in force: without it a head of few labels leaves the probe.
    """
    encoder = copy.deepcopy(encoder)
    h = torch.cat(list(_encoded(encoder, x, plain)))
    head = Head(h.shape[1], classes)
    if probe:
        weight, bias, head.penalty = _probed(h, labels, classes)
        with torch.no_grad():
            head.weight.copy_(weight)
            head.bias.copy_(bias)
    return nn.Sequential(encoder, head)


def fine_tuned(
    model: nn.Sequential,
    x: Tensor,
    labels: Tensor,
    *,
    steps: int = 0,
    rate: float = RATE,
    share: float = 1.0,
    views: Drawn | None = None,
    seed: int = 0,
    told: Told | None = None,
) -> nn.Sequential:
    """Train encoder and head on labeled samples by cross-entropy; ``views`` makes what the encoder sees of a batch.

    The encoder takes ``share`` of the rate.
    """
    steps = steps or steps_for(len(x))
    head: nn.Linear = model[1]  # type: ignore[assignment]
    penalty = getattr(head, "penalty", 0.0)
    groups = [{"params": model[0].parameters(), "lr": share * rate}, {"params": head.parameters(), "lr": rate}]
    optimizer = torch.optim.AdamW([group for group in map(_filled, groups) if group["params"]], weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _rate(step, steps))
    model.train()
    for number, rows in zip(range(steps), _batches(len(x), seed), strict=False):
        keys = sample_keys(seed, number, rows)
        seen = x[rows] if views is None else views(x[rows], keys)
        torch.manual_seed(seed_from(seed, number))  # dropout and the like
        loss = F.cross_entropy(model(seen), labels[rows]) + penalty * head.weight.square().sum() / 2
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()
        if told is not None:
            told(float(loss.detach()))
    return model.eval()


def steps_for(n: int) -> int:
    """How many steps so many labels take."""
    return int(min(MOST, max(FEWEST, EPOCHS * -(-n // min(n, BATCH)))))


def share_for(n: int) -> float:
    """The share of the rate at which a trained encoder moves with so many labels: n / 1000, at most all of it."""
    return min(1.0, n / ENOUGH)


@torch.no_grad()
def classified(model: nn.Sequential, x: Any, plain: Drawn | None = None) -> Tensor:
    """The class of every sample, as a number."""
    encoder, head = model
    return torch.cat([head(h).argmax(1) for h in _encoded(encoder, x, plain)])


def _encoded(encoder: nn.Module, x: Any, plain: Drawn | None) -> Iterator[Tensor]:
    """Features of the samples, a part at a time; the encoder's mode stays as it is."""
    mode = encoder.training
    encoder.eval()
    for rows in torch.arange(len(x)).split(ENCODED):
        with torch.no_grad():
            h = encoder(x[rows] if plain is None else plain(x[rows], rows)).float()
        yield h
    encoder.train(mode)


def _filled(group: dict[str, Any]) -> dict[str, Any]:
    return {**group, "params": list(group["params"])}


def _probed(h: Tensor, labels: Tensor, classes: int) -> tuple[Tensor, Tensor, float]:
    """Weight, bias and penalty of the linear probe, which sees features centered and scaled, for features as given."""
    center, scale = h.mean(0), float((h - h.mean(0)).square().mean().sqrt()) or 1.0
    known, codes = labels.unique(return_inverse=True)
    fit = fitted_probe((h - center) / scale, codes, len(known))
    weight = torch.zeros(classes, h.shape[1])
    bias = torch.full((classes,), -1e3)  # a class without labels is not chosen
    own = fit.weight.float() / scale
    weight[known], bias[known] = own, fit.bias.float() - own @ center
    factor = 2.0 if len(known) == 2 else 1.0  # a probe of two classes penalizes the difference of their weights
    return weight, bias, factor * fit.penalty * scale**2


def _batches(n: int, seed: int) -> Iterator[Tensor]:
    """Batches without end: every pass over the samples in another order, none smaller than two."""
    size, epoch = min(n, BATCH), 0
    while True:
        for rows in shuffled(torch.arange(n), seed=seed_from(seed, epoch)).split(size):
            if len(rows) > 1:
                yield rows
        epoch += 1


def _rate(step: int, steps: int) -> float:
    warmup = max(1, steps // 20)
    left = max(1, steps - warmup)  # of a single step there is none; the schedule asks for the one after it
    return (step + 1) / warmup if step < warmup else 0.5 * (1 + np.cos(np.pi * (step - warmup) / left))

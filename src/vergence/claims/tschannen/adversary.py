"""A claim of Tschannen et al.: features may hold all information and still be useless to a linear classifier."""

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, log_softmax

from vergence import evaluation, features
from vergence.claims.claim import Outcome, claim
from vergence.claims.evidence import contrast
from vergence.claims.laboratory import Laboratory, Row, column, mean, stated
from vergence.claims.tschannen.infomax import (
    PROBE,
    along,
    couplings,
    inverse_error,
    places,
    probe,
    protocol,
    seeded,
)
from vergence.config import Config
from vergence.learning import loop
from vergence.runs import assembly
from vergence.runs.assembly import Assembled

AHEAD = 10  # steps of the classifier for each of the encoder, as the authors have it
WARMUP = 30  # rounds in which the classifier learns alone; the authors take 100
ROUNDS = {"smallest": 4, "small": 300, "medium": 600, "paper": 4000}
INVERTED = 1e-3  # largest error of an inverse, in float64, that counts as none


@claim(
    66,
    "An invertible encoder can be trained to be worse for a linear probe than the pixels are.",
    kind="training",
    tolerance="every seed below the pixels where it was last measured with an inverse error < 1e-3 in float64",
    minutes=5.0,
)
def an_invertible_encoder_can_be_bad(laboratory: Laboratory) -> Outcome:
    rounds, settings = ROUNDS[laboratory.name], {**protocol(laboratory), "encoder": "affine_flow"}
    runs = [
        laboratory.remember("made_bad", config.settings() | {"rounds": rounds}, partial(made_bad, config, rounds))[
            "rows"
        ]
        for config in seeded(laboratory, settings | {"backbone": couplings(laboratory)})
    ]
    after = [_last_inverted(run) for run in runs]
    worse = [row["pixels"] - row["accuracy"] for row in after]
    error, rounded = max(column(after, "inverse")), max(column(after, "inverse_float32"))
    steps = sorted(column(after, "step"))
    return Outcome(
        min(worse) > 0 and error < INVERTED,
        f"accuracy {stated(after, 'accuracy')}, of the pixels {mean(after, 'pixels'):.3f}, after {steps[0]} to "
        f"{steps[-1]} of {rounds} steps, where each was last found inverted; "
        f"largest inverse error {error:.0e} in float64, {rounded:.0e} in float32, as affine couplings grow steep",
        {"below_the_pixels": worse, "inverse_error": error},
        {
            "accuracy": along(
                runs, "accuracy", PROBE, across="steps of the encoder", levels={"pixels": mean(after, "pixels")}
            )
        },
        why="" if min(worse) > 0 else "The training is short: the authors take 4,000 rounds.",
        contrasts=[contrast("pixels over the encoder", column(after, "pixels"), column(after, "accuracy"))],
        undecidable="" if error < INVERTED else f"The encoder is not inverted: its inverse is off by {error:.0e}.",
    )


def _last_inverted(run: list[Row]) -> Row:
    """The last measurement of an encoder that is still inverted; the last of all where none is.

    Training that goes on makes couplings so steep that floating-point numbers cannot invert them, sooner or later by
    chance; a claim about invertible encoders is decided by those that are.
    """
    inverted = [row for row in run[1:] if row["inverse"] < INVERTED]
    return (inverted or run)[-1]


def made_bad(config: Config, rounds: int) -> Row:
    """Train an encoder so that a linear classifier, which learns ten times as often, cannot tell the classes apart.

    The encoder minimizes the cross-entropy of the classifier's answers with the uniform law.

    References:
        Tschannen et al. (2020), Sec. 3.1 and Fig. 1c. https://arxiv.org/abs/1907.13625
    """
    parts = assembly.assemble(config)
    encoder: nn.Module = parts.learner.encoder
    classifier = nn.Linear(parts.learner.width, len(parts.samples.classes)).to(assembly.device(config))
    learns = torch.optim.Adam(classifier.parameters(), lr=1e-3)
    misleads = torch.optim.Adam(encoder.parameters(), lr=config.optim.rate / 10)
    batches, rows = _labeled(parts, (WARMUP + rounds) * (AHEAD + 1)), [{"step": 0, **_seen(parts)}]
    for number in range(1 - WARMUP, rounds + 1):
        for x, labels in (next(batches) for _ in range(AHEAD)):
            with torch.no_grad():
                h = encoder(x)
            _descend(learns, cross_entropy(classifier(h), labels))
        if number > 0:
            x, _ = next(batches)
            _descend(misleads, -log_softmax(classifier(encoder(x)), dim=1).mean())
        if number in places(rounds):
            rows.append({"step": number, **_seen(parts)})
    return {"rows": rows}


def _seen(parts: Assembled) -> Row:
    splits = (parts.samples, parts.test)
    (train, train_labels), (test, test_labels) = ((features.pixels(s, parts.recipe), s.labels) for s in splits)
    pixels = evaluation.linear_probe(train, train_labels, test, test_labels, protocol="saga").accuracy
    errors = {"inverse": inverse_error(parts, dtype=torch.float64), "inverse_float32": inverse_error(parts)}
    return {"accuracy": probe(parts), "pixels": pixels, **errors}


def _labeled(parts: Assembled, count: int) -> Iterator[tuple[Tensor, Tensor]]:
    """At least ``count`` batches of top halves with their labels."""
    config, labels, device = parts.config, parts.samples.labels, assembly.device(parts.config)
    assert labels is not None, "digits have labels"
    epochs = math.ceil(count / loop.steps_per_epoch(len(parts.samples), config.batch))
    for indices, x in loop.batches(parts.samples, replace(config, epochs=epochs)):
        yield parts.recipe.plain(x.to(device)), labels[indices].to(device)


def _descend(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

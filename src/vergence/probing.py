"""Probing: what every layer of a run is worth to its labels, from the first weights to the last of the projector."""

from typing import Any

from torch import nn

from vergence import evaluation, features
from vergence.assessment import BASELINE_SAMPLES, trained
from vergence.run import Run


def probed_layers(run: Run, *, protocol: str = "lbfgs") -> list[dict[str, Any]]:
    """A linear probe after every layer of the encoder and of the projector: where does the critic begin?

    Accuracy rises along the encoder and, where the objective throws away what the labels need, falls in the projector.
    At most 10,000 samples of each split are used.
    """
    parts = trained(run)
    if parts.samples.labels is None or parts.test.labels is None:
        raise ValueError(f"Probes need labels, and {parts.config.data} has none.")
    encoder, projector = parts.learner.encoder, parts.learner.projector
    chain = nn.Sequential(encoder, projector) if isinstance(projector, nn.Sequential) else encoder
    rows = [
        features.by_layer(chain, samples, parts.recipe, limit=BASELINE_SAMPLES)
        for samples in (parts.samples, parts.test)
    ]
    depth = len(features.by_layer(encoder, parts.test, parts.recipe, limit=2))
    found = []
    for number, (train, test) in enumerate(zip(*rows, strict=True), 1):
        data = (train, parts.samples.labels[: len(train)], test, parts.test.labels[: len(test)])
        accuracy = evaluation.linear_probe(*data, protocol=protocol)
        part = f"encoder {number}" if number <= depth else f"projector {number - depth}"
        found.append({"layer": part, "width": train.shape[1], **accuracy.to_dict()})
    return found

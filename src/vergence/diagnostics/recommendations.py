"""What to change: at most five recommendations, each tied to a measurement, and to the override where a run has one."""

from collections.abc import Iterator, Mapping
from typing import Any

from vergence.diagnostics.findings import Finding, faults_only
from vergence.diagnostics.measures import Measured

MOST = 5


def recommendations(
    findings: tuple[Finding, ...], measured: Mapping[str, Measured], *, trained: bool = False
) -> tuple[dict[str, Any], ...]:
    """Remedies of the faults, gravest first; for a sound training run, what would do good without one."""
    remedies = [
        {
            "sentence": f"{finding.advice} {finding.sentence}",
            "measurement": finding.measurement,
            "override": finding.override if trained else None,
        }
        for finding in faults_only(findings)
    ]
    return tuple([*remedies, *(() if remedies or not trained else _improvements(measured))][:MOST])


def _improvements(measured: Mapping[str, Measured]) -> Iterator[dict[str, Any]]:
    """For a sound run: where theory says room is left."""
    found = {name: entry.value for name, entry in measured.items()}
    scale = found.get("thermometer")
    temperature = scale.hyperparameters.get("temperature") if scale else None
    if scale and scale.verdict in ("learning", "not started"):
        sentence = f"The loss has gone {100 * max(0.0, scale.position):.0f} % of its way: train longer."
        yield {"sentence": sentence, "measurement": "thermometer", "override": "--epochs 400"}
    spread = found.get("uniformity")
    if temperature and spread and "matching" in found and spread["low"] > 0.6 * spread["floor"]:
        sentence = (
            f"Uniformity is {spread['value']:.2f} where {spread['floor']:.2f} is possible: spread embeddings more."
        )
        override = f"--objective.temperature {temperature / 2:g}"
        yield {"sentence": sentence, "measurement": "uniformity", "override": override}
    if "vanished_float16" in found and found["vanished_float16"].value > 0.2:
        share = 100 * found["vanished_float16"].value
        sentence = (
            f"{share:.0f} % of anchors would lose their gradient in float16: use an objective whose gradient stays."
        )
        yield {"sentence": sentence, "measurement": "vanished_float16", "override": "--method flatclr"}

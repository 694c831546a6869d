"""What to change: at most five recommendations, each tied to a measurement and to the override that does it."""

from collections.abc import Iterator, Mapping
from typing import Any

from vergence.diagnostics.faults import Finding

MOST = 5


def recommendations(findings: tuple[Finding, ...], measured: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    """Remedies of the faults, gravest first, then what would do good without one."""
    remedies = [
        {
            "sentence": f"{finding.advice} {finding.sentence}",
            "measurement": finding.measurement,
            "override": finding.override,
        }
        for finding in findings
    ]
    return tuple([*remedies, *(() if remedies else _improvements(measured))][:MOST])


def _improvements(measured: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """For a sound run: where theory says room is left."""
    scale = measured.get("thermometer")
    temperature = scale.hyperparameters.get("temperature") if scale else None
    if scale and scale.verdict in ("learning", "not started"):
        sentence = f"The loss has gone {100 * max(0.0, scale.position):.0f} % of its way: train longer."
        yield {"sentence": sentence, "measurement": "thermometer", "override": "--epochs 400"}
    spread = measured["uniformity"]
    if temperature and "matching" in measured and spread["low"] > 0.6 * spread["floor"]:
        sentence = (
            f"Uniformity is {spread['value']:.2f} where {spread['floor']:.2f} is possible: spread embeddings more."
        )
        override = f"--objective.temperature {temperature / 2:g}"
        yield {"sentence": sentence, "measurement": "uniformity", "override": override}
    if "vanished_float16" in measured and measured["vanished_float16"].value > 0.2:
        share = 100 * measured["vanished_float16"].value
        sentence = (
            f"{share:.0f} % of anchors would lose their gradient in float16: use an objective whose gradient stays."
        )
        yield {"sentence": sentence, "measurement": "vanished_float16", "override": "--method flatclr"}
    if "hubness" in measured and measured["hubness"].low > 4:
        sentence = (
            f"A few rows are near to everything (skewness {measured['hubness'].value:.1f}): center before searching."
        )
        yield {"sentence": sentence, "measurement": "hubness", "override": None}

"""The page of the claims: every sentence with its verdict and figure, grouped by source."""

from collections.abc import Mapping, Sequence
from typing import Any

from vergence.report.document import document, section
from vergence.report.pieces import code, table


def reproduction_page(
    findings: Sequence[Any], sources: Mapping[str, str], *, command: str = "vergence reproduce"
) -> str:
    """Findings of claims as one page that can be published as it is."""
    surprising = [finding for finding in findings if not finding.expected]
    counts = {verdict: sum(finding.verdict == verdict for finding in findings) for verdict in VERDICTS}
    words = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    groups = [(title, [finding for finding in findings if finding.source == name]) for name, title in sources.items()]
    return document(
        "Claims",
        f"Of {len(findings)} claims of the sources: {words}.",
        [
            *(
                section(title, table(HEADINGS, [_row(finding) for finding in group]))
                for title, group in groups
                if group
            ),
            section("How to repeat it", code(command)),
        ],
        label="not confirmed" if surprising else "confirmed",
        summary=[f"Claim {finding.number} is {finding.verdict}: {finding.sentence}" for finding in surprising[:5]],
    )


VERDICTS = ("confirmed", "not confirmed", "refuted")
HEADINGS = ("", "claim", "verdict", "measured", "tolerance", "seconds")


def _row(finding: Any) -> list[object]:
    return [finding.number, finding.sentence, finding.verdict, finding.measured, finding.tolerance, finding.seconds]

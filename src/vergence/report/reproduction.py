"""The page of the claims: every sentence with its verdict and what was measured, pictures where there are any."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from vergence.report.document import Section, document, section
from vergence.report.pieces import code, paragraph, piece, side_by_side, table, themed

VERDICTS = ("confirmed", "refuted", "undecided", "contradicted")
HEADINGS = ("", "claim", "verdict", "measured", "tolerance", "seconds")


def reproduction_page(
    findings: Sequence[Any],
    sources: Mapping[str, str],
    *,
    command: str = "vergence reproduce",
    pictures: Path = Path("pictures"),
) -> str:
    """Findings of claims as one page that can be published as it is, grouped by source."""
    surprising = [finding for finding in findings if not finding.expected]
    counts = {verdict: sum(finding.verdict == verdict for finding in findings) for verdict in VERDICTS}
    words = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    return document(
        "Claims",
        f"Of {len(findings)} claims of the sources: {words}.",
        [
            *(
                _group(title, [finding for finding in findings if finding.source == name], pictures)
                for name, title in sources.items()
            ),
            section("How to repeat it", code(command)),
        ],
        label=max((finding.verdict for finding in surprising), key=VERDICTS.index, default="confirmed"),
        summary=[f"Claim {finding.number} is {finding.verdict}: {finding.sentence}" for finding in surprising[:5]],
    )


def _group(title: str, findings: Sequence[Any], pictures: Path) -> Section | None:
    """The claims of a source: a table of all, then those with pictures."""
    if not findings:
        return None
    title, _, address = title.partition(" https://")
    link = Markup('<p><a href="https://{0}">https://{0}</a></p>').format(address) if address else None
    drawn = [_pictured(finding, pictures) for finding in findings if finding.pictures]
    return section(title.rstrip("."), link, table(HEADINGS, [_row(finding) for finding in findings]), *drawn)


def _pictured(finding: Any, pictures: Path) -> Markup:
    """A claim's sentence over its pictures."""
    words = f"{finding.number}. {finding.sentence} {finding.verdict.capitalize()}: {finding.measured}."
    files = [(pictures / name).read_text(encoding="utf-8") for name in finding.pictures]
    drawings = [piece("picture", themed(text), "", f"{finding.sentence} {finding.measured}") for text in files]
    return Markup("\n").join(part for part in (paragraph(f"{words} {finding.why}"), side_by_side(*drawings)) if part)


def _row(finding: Any) -> list[object]:
    return [finding.number, finding.sentence, finding.verdict, finding.measured, finding.tolerance, finding.seconds]

"""What training gave, in a word and in a sentence; needs nothing that draws, so that a terminal has it at once."""

from collections.abc import Iterator

from vergence.runs.results import STARTING, UNTRAINED, Gain, Results

BEFORE = (UNTRAINED, STARTING)  # what training began with
GOOD = ("learning", "near the floor", "healthy")  # verdicts on rows and loss, which say nothing of what training gave


def worth(results: Results) -> list[str]:
    """What training gave over the untrained encoder, paired on the same samples, beside the raw input."""
    gain = _first_gain(results)
    if gain is None:
        return list(_unpaired(results))
    points = 100 * gain.value
    amount = f"{'gained' if points > 0 else 'lost'} {abs(points):.1f} points"
    if gain.low <= 0 <= gain.high:
        amount = f"made no certain difference: {points:+.1f} points"
    others = [each for each in results.gains if each.classifier == gain.classifier and each.over != gain.over]
    beside = "".join(f"; {each.over} {percent(each.second)}" for each in others)
    between = f"95 % of the gain between {100 * gain.low:.1f} and {100 * gain.high:.1f}"
    return [
        f"Training {amount} over the {gain.over} ({100 * gain.second:.1f} to {percent(gain.first)}, {between}{beside}; "
        f"{gain.classifier}, {gain.n:,} held-out samples)."
    ]


def badge(results: Results) -> str:
    """The word of the verdict; where nothing is wrong, but training made no certain difference or a worse one, that."""
    gain = _first_gain(results)
    if results.verdict.label not in GOOD or gain is None or gain.over not in BEFORE or gain.low > 0:
        return results.verdict.label
    return "no certain gain" if gain.high >= 0 else f"worse than the {gain.over}"


def percent(value: float) -> str:
    """A share as a percentage with one decimal."""
    return f"{100 * value:.1f} %"


def _first_gain(results: Results) -> Gain | None:
    """The gain that is told first: of the linear probe over the untrained encoder, or the first there is."""
    rows = sorted(results.gains, key=lambda gain: (gain.over not in BEFORE, gain.classifier != "linear probe"))
    return rows[0] if rows else None


def _unpaired(results: Results) -> Iterator[str]:
    """Results of an earlier form, or of one set of rows, know accuracies without the samples behind them."""
    best = {name: results.best(name) for name in dict.fromkeys(row.features for row in results.accuracy)}
    known = [score for score in best.values() if score is not None]
    if known:
        facts = [f"{score.features} {percent(score.accuracy)} ({score.classifier})" for score in known]
        yield f"Accuracy with {known[0].labels}: {', '.join(facts)}."

"""What training gave, in a word and in a sentence; needs nothing that draws, so that a terminal has it at once."""

from collections.abc import Iterator

from vergence.runs.results import STARTING, UNTRAINED, Gain, Results

BEFORE = (UNTRAINED, STARTING)  # what training began with
GOOD = ("learning", "near the floor", "healthy")  # verdicts on rows and loss, which say nothing of what training gave


def worth(results: Results) -> list[str]:
    """What training gave over the untrained encoder, paired on the same samples, beside the raw input.

    With all labels first. Where that leaves no certain difference, as on data that any features classify, few labels of
    each class may tell one, and are told first then.
    """
    told = _told(results)
    return [f"{claim} ({figures})." for claim, figures in told] if told else list(_unpaired(results))


def headline(results: Results) -> list[str]:
    """The same for the head of a page: the first sentence without its figures, then these, then what else is told."""
    if not (told := _told(results)):
        return worth(results)
    (claim, figures), *_ = told
    return [f"{claim}.", f"{figures}.", *worth(results)[1:]]


def badge(results: Results) -> str:
    """The word of the verdict; where nothing is wrong, but training made no certain difference or a worse one, that.

    A loss that shows nothing of samples yet is outvoted by a certain gain.
    """
    gain, few = _first_gain(results), _first_gain(results, few=True)
    if results.verdict.label == "not started" and gain is not None and gain.over in BEFORE and gain.low > 0:
        return "learning"
    if results.verdict.label not in GOOD or gain is None or gain.over not in BEFORE or gain.low > 0:
        return results.verdict.label
    if gain.high >= 0 and few is not None and few.certain:  # all labels tell nothing, few of them do
        return results.verdict.label if few.low > 0 else f"worse than the {few.over}"
    return "no certain gain" if gain.high >= 0 else f"worse than the {gain.over}"


def percent(value: float) -> str:
    """A share as a percentage with one decimal."""
    return f"{100 * value:.1f} %"


def _first_gain(results: Results, *, few: bool = False) -> Gain | None:
    """The gain that is told first: of the linear probe over the untrained encoder, or the first there is."""
    known = [gain for gain in results.gains if (gain.per_class is not None) == few]
    rows = sorted(known, key=lambda gain: (gain.over not in BEFORE, gain.classifier != "linear probe"))
    return rows[0] if rows else None


def _told(results: Results) -> list[tuple[str, str]]:
    """The gains that are told, each as a claim and its figures; two of them say how many labels each had."""
    every, few = _first_gain(results), _first_gain(results, few=True)
    if every is None:
        return []
    if few is None or every.certain or not few.certain or few.over != every.over:
        return [(f"Training {_amount(every)}", _figures(every, results))]
    return [
        (f"With {few.per_class:g} labels per class training {_amount(few)}", _figures(few, results)),
        (f"With all labels training {_amount(every)}", _figures(every, results)),
    ]


def _amount(gain: Gain) -> str:
    points = 100 * gain.value
    amount = f"{'gained' if points > 0 else 'lost'} {abs(points):.1f} points"
    return f"{amount if gain.certain else f'made no certain difference: {points:+.1f} points'} over the {gain.over}"


def _figures(gain: Gain, results: Results) -> str:
    """Both accuracies, the interval of their difference, and the other baselines by the same classifier."""
    alike = [each for each in results.gains if (each.classifier, each.per_class) == (gain.classifier, gain.per_class)]
    beside = "".join(f"; {each.over} {percent(each.second)}" for each in alike if each.over != gain.over)
    between = f"95 % of the gain between {100 * gain.low:.1f} and {100 * gain.high:.1f}"
    shares = f"{100 * gain.second:.1f} to {percent(gain.first)}, {between}{beside}"
    return f"{shares}; {gain.classifier}, {gain.n:,} held-out samples"


def _unpaired(results: Results) -> Iterator[str]:
    """Results of an earlier form, or of one set of rows, know accuracies without the samples behind them."""
    best = {name: results.best(name) for name in dict.fromkeys(row.features for row in results.accuracy)}
    known = [score for score in best.values() if score is not None]
    if known:
        facts = [f"{score.features} {percent(score.accuracy)} ({score.classifier})" for score in known]
        yield f"Accuracy with {known[0].labels}: {', '.join(facts)}."

"""The diagnosis: everything that DIAGNOSTICS measures and FAULTS finds in what is given, and the verdicts.

``DERIVED`` is what rows of both tables share, each made once at first use.
"""

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vergence.diagnostics import copies as copying
from vergence.diagnostics import geometry, measures, removal
from vergence.diagnostics.arrays import Array, chosen_rows, labels_for, rows_at, sampled, shape
from vergence.diagnostics.assignments import assigned
from vergence.diagnostics.by_name import Given, Maker
from vergence.diagnostics.collapse import Collapse, collapse
from vergence.diagnostics.estimate import Estimate, mean
from vergence.diagnostics.faults import FAULTS, columns, directions, learning, lengths, pairs, rows
from vergence.diagnostics.findings import ABOUT, LEVELS, Finding, Verdict, faults_only, group_verdict
from vergence.diagnostics.grouping import groups
from vergence.diagnostics.measures import Measured
from vergence.diagnostics.negatives import Negatives, negatives
from vergence.diagnostics.reading import comparable, judged, readers, replaced
from vergence.diagnostics.spectrum import moments, spectrum
from vergence.diagnostics.thermometer import UNCOUNTED, Thermometer, read
from vergence.diagnostics.trials import bench
from vergence.diagnostics.view_trials import matched
from vergence.objectives import OBJECTIVES
from vergence.tables import FROM_LEARNER

Batches = list[tuple[Tensor, ...]]  # first views, second views, labels

BATCH = 256  # pairs in a batch where the size is not told
OTHER_BATCHES = (2, 65_536)  # the smallest and one larger than most
WIDTH = 128  # dimensions where there are no embeddings to count them
LAYERS = 1000  # rows whose representation and embedding are compared
# Below FEW_ROWS only facts are stated, not estimates.
FACTS = (
    "too few rows", "empty rows", "complete collapse", "frozen projector", "impossible loss", "temperature too high",
)  # fmt: skip


SPOILED = 0.05  # accuracy that a fault of rows costs, from which few wrong labels cannot be told by these rows
MANY_WRONG = 0.1  # share of wrong labels that spoiled rows do not explain
# Faults of rows that only a gain in accuracy tells from harmless signatures.
BY_ACCURACY = ("mixture", "heavy-tailed lengths", "dominant direction", "column scales", "constant offset")


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """What was measured and found, gravest first; a verdict of all, and one each of rows, of pairs, of learning."""

    measured: Mapping[str, Measured]
    findings: tuple[Finding, ...]
    verdict: Verdict
    groups: Mapping[str, Verdict]
    notes: tuple[str, ...]

    @property
    def faults(self) -> tuple[str, ...]:
        """The names of the faults, gravest first; notes and open questions are not among them."""
        return tuple(finding.fault for finding in faults_only(self.findings))


def diagnose(
    h: Array,
    *,
    z1: Array | None = None,
    z2: Array | None = None,
    labels: Array | None = None,
    objective: str | Callable[..., Any] | None = None,
    loss: float | None = None,
    batch: int | None = None,
    projector: Mapping[str, Tensor] | None = None,
    compared: bool = True,
    steps: int | None = None,
    read_elsewhere: float = 0.0,
    words: Tensor | None = None,
    seed: int = 0,
    diagnostics: Mapping[str, Callable[..., Any]] | None = None,
    faults: Mapping[str, Callable[..., Any]] = FAULTS,
    known: Mapping[str, Any] | None = None,
    **hyperparameters: Any,
) -> Diagnosis:
    """Diagnose rows ``h``; second views ``z1, z2``, labels, an objective and its loss add to it.

    ``projector`` is the state dict of the projection head, empty where there is none; ``compared`` says whether
    training compared the views of a sample, ``steps`` how long it was, ``read_elsewhere`` the accuracy with which other
    features of the samples give the labels. With an objective or a projector rows come from a training run, else from
    anywhere. ``words`` has the logarithm of the number of words and their mean rarity for each row, if rows are texts.
    ``diagnostics`` and ``faults`` are the tables; a table without rows measures nothing. ``known`` is what need not be
    derived again: where ``h`` is a sample, what is known of all rows (see ``merging``).
    """
    from vergence.diagnostics import DIAGNOSTICS  # the table names this module's functions

    given = gather(
        h, z1=z1, z2=z2, labels=labels, objective=OBJECTIVES.named(objective), loss=loss, batch=batch,
        projector=projector, compared=compared, steps=steps, read_elsewhere=read_elsewhere, words=words, seed=seed,
        hyperparameters=hyperparameters,
    )  # fmt: skip
    given.values.update(known or {})
    found = find(given, faults)
    measured = measures.measure(given, DIAGNOSTICS if diagnostics is None else diagnostics)
    verdicts = {
        "rows": group_verdict(found, "rows", examined=True),
        "pairs": group_verdict(found, "pairs", examined=labels is not None or z2 is not None),
        "learning": group_verdict(found, "learning", examined=given["trained"]),
    }
    return Diagnosis(measured, found, overall(found, given), verdicts, notes(given["n"]))


def gather(h: Array, **values: Any) -> Given:
    """What is given, checked, by the names that rows of the tables ask for.

    Tensors of an accelerator are copied from it once: a diagnostic reads values, and each reading would wait for it.
    """
    h, values = _read(h), {name: _read(value) for name, value in values.items()}
    n, _ = shape(h)
    z1, z2, labels = (values.get(name) for name in ("z1", "z2", "labels"))
    if (z1 is None) != (z2 is None):
        raise ValueError("Give both views, z1 and z2, or neither")
    if z1 is not None and z2 is not None and not (len(z1) == len(z2) == n):
        raise ValueError(
            f"Two views of {n} samples need {n} rows each, row i of sample i; they have {len(z1)} and {len(z2)} rows"
        )
    targets = None if labels is None else labels_for(labels, n)
    known = learning.known(values.get("objective"), values.get("projector"))
    projector = values.get("projector")
    more = {"h": h, "n": n, "labels": targets, "trained": known, "projected": projector is None or bool(projector)}
    return Given({"seed": 0, "compared": True, "hyperparameters": {}, **values, **more}, DERIVED)


def _read(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _read(one) for name, one in value.items()}
    return value.cpu() if isinstance(value, Tensor) and value.device.type != "cpu" else value


def find(given: Given, table: Mapping[str, Callable[..., Any]] = FAULTS) -> tuple[Finding, ...]:
    """Findings of every detector whose arguments are there, gravest first: faults, then notes, then open questions."""
    few = given["n"] < rows.FEW_ROWS
    found = []
    for name, detector in table.items():
        if (few and name not in FACTS) or not given.has_all_for(detector):
            continue
        finding = given.call(detector)
        if finding is not None:
            found.append((getattr(detector, "order", 999), finding))
    findings = causes_first([finding for _, finding in sorted(found, key=lambda entry: entry[0])])
    return tuple(sorted(findings, key=lambda finding: LEVELS.index(finding.level)))


def causes_first(findings: list[Finding]) -> list[Finding]:
    """What is judged by accuracy alone waits where labels are wrong; label noise waits where rows are spoiled.

    Two models contradict many labels; the other faults of rows few, for the readers of labels mind them little.
    """
    wrong = faults_only(tuple(findings))
    if {"misaligned labels", "labels at chance"} & {each.fault for each in wrong}:
        words = " Measured with labels that do not belong to these rows: repair the labels first."
        return [_put_off(each, "note", words) if each.fault in BY_ACCURACY else each for each in findings]
    costs = [each.cost for each in wrong if each.about == "rows" and each.cost is not None]
    if any(cost.value > SPOILED for cost in costs):
        words = " Rows are spoiled too, and spoiled rows contradict right labels: repair the rows first."
        two = any(each.fault == "mixture" for each in wrong)
        waits = [each.fault == "label noise" and (two or _few_wrong(each)) for each in findings]
        return [_put_off(each, "unknown", words) if wait else each for each, wait in zip(findings, waits, strict=True)]
    return findings


def _few_wrong(noise: Finding) -> bool:
    return noise.cost is not None and noise.cost.value < MANY_WRONG


def _put_off(finding: Finding, level: str, words: str) -> Finding:
    return replace(finding, level=level, sentence=finding.sentence + words) if finding.level == "fault" else finding


def overall(findings: tuple[Finding, ...], given: Given) -> Verdict:
    """One label and one sentence: the gravest fault, else where the loss stands, else what is known of these rows."""
    wrong, n = faults_only(findings), given["n"]
    if wrong:
        first = wrong[0].fault
        label = "collapsed" if first.endswith("collapse") else "impossible" if first == "impossible loss" else "faulty"
        sentence = f"{first.capitalize()}. {wrong[0].advice}"
        return Verdict(label, sentence, tuple(finding.sentence for finding in wrong))
    evidence = tuple(finding.sentence for finding in findings)
    if n < rows.FEW_ROWS:
        return Verdict("too few rows", f"{n} rows are too few to tell whether anything is wrong.", evidence)
    reading = given.get("reading")
    if reading is not None and reading.verdict != "unknown":
        return _of_the_loss(reading, given, evidence)
    telling = _telling(given)
    if not telling:
        sentence = f"No fault found in {n:,} rows; what they are good for cannot be told from rows alone."
        return Verdict("cannot tell", sentence, evidence)
    return Verdict("healthy", f"No fault found in {n:,} rows.", (*telling, *evidence))


def _of_the_loss(reading: Thermometer, given: Given, evidence: tuple[str, ...]) -> Verdict:
    """Where rows are sound, the loss has the word; it cannot call collapsed what is apart."""
    held_out = given.get("held_out_loss")
    if held_out is not None and reading.verdict in ("collapsed", "not started"):
        options = {name: value for name, value in reading.hyperparameters.items() if name not in FROM_LEARNER}
        size = min(reading.n, given["n"])  # rows of a batch of them
        again = read(reading.objective, n=size, d=reading.d, loss=held_out.value, guess=False, **options)
        if again.verdict in ("learning", "near the floor"):
            sentence = f"The loss {reading.loss:.4g} is not that of these embeddings, which give {held_out.value:.4g}: "
            own = given.get("steps") is not None  # a run of ours, whose convention is known
            sentence += (
                "it is the mean of the last epoch, and they are of held-out samples after it."
                if own
                else "another convention, batch size or temperature."
            )
            return Verdict(again.verdict, f"No fault found: {sentence} {again.sentence}", (*_telling(given), *evidence))
    if reading.verdict in ("collapsed", "not started"):
        sentence = f"{reading.sentence} Rows are apart all the same: no collapse, and little learned by this loss yet."
        return Verdict("not started", sentence, (*_telling(given), *evidence))
    return Verdict(reading.verdict, f"No fault found: {reading.sentence}", (*_telling(given), *evidence))


def _telling(given: Given) -> tuple[str, ...]:
    """What shows that rows mean something: labels above chance, views that match."""
    found = []
    if "judged" in given and given["judged"] is not None and given["judged"].above_chance:
        judge = given["judged"]
        found.append(f"Classes are told apart: balanced accuracy {judge.accuracy:.3f}, {judge.chance:.3f} by chance.")
    match = given.get("matched")
    if match is not None and match.own.low > pairs.UNMATCHED and not match.identical:
        how = ", seen through a linear map" if match.mapped else ""
        found.append(
            f"A sample's own other view is the closer one in {100 * match.own.value:.1f} % of comparisons{how}."
        )
    return tuple(found)


def notes(n: int) -> tuple[str, ...]:
    """What was sampled."""
    if n <= rows.trials.SAMPLE:
        return ("All rows were compared with each other; nothing was sampled.",)
    return (
        f"Spectrum, lengths and exact copies are of all {n:,} rows. What remedies give was tried on "
        f"{rows.trials.SAMPLE:,} rows drawn at random, and pairs are those of at most {measures.PAIRS:,} rows with at "
        "most 50,000 others; intervals hold the error of the sample.",
    )


def _zeros(norms_of_h: geometry.Norms) -> int:
    return norms_of_h.zeros


def _steadiness(steady: tuple[Estimate, int]) -> Estimate:
    return steady[0]


def _steady_z1(z1: Array, seed: int = 0) -> tuple[Estimate, int]:
    return measures.steadiness(z1, seed=seed)


def _block(steady: tuple[Estimate, int]) -> int:
    return steady[1]


def _collapse_of(name: str) -> Maker:
    def of_first(z1: Array, seed: int = 0) -> Collapse:
        return collapse(z1, seed=seed)

    def of_second(z2: Array, seed: int = 0) -> Collapse:
        return collapse(z2, seed=seed)

    return of_first if name == "z1" else of_second


def _norms_of_z1(z1: Array) -> geometry.Norms:
    return geometry.norms(z1)


def _norms_of_h(h: Array) -> geometry.Norms:
    return geometry.norms(h)


def _norm(norms_of_z1: geometry.Norms) -> Estimate:
    return norms_of_z1.mean


def _divergence(h: Array, labels: Tensor, seed: int = 0) -> geometry.Divergence | None:
    return geometry.divergence(h, labels, seed=seed) if comparable(labels) else None


def _layer_sample(n: int, seed: int) -> np.ndarray:
    return chosen_rows(n, LAYERS, seed=seed)


def _h_sample(h: Array, z1: Array, n: int, seed: int = 0) -> Tensor:
    return rows_at(h, _layer_sample(n, seed)).cpu()


def _z1_sample(z1: Array, n: int, seed: int = 0) -> Tensor:
    return rows_at(z1, _layer_sample(n, seed), "z1").cpu()


def _sample_labels(labels: Tensor, n: int, seed: int = 0) -> Tensor | None:
    return labels[torch.from_numpy(_layer_sample(n, seed))] if comparable(labels) else None


def _pairs(
    z1: Array, z2: Array, objective: str, norms_of_z1: geometry.Norms, collapse_of_z1: Collapse,
    labels: Tensor | None = None, batch: int | None = None, seed: int = 0,
) -> Batches | None:  # fmt: skip
    """At most eight batches of pairs drawn at random, with their labels.

    None where a row of zeros has no direction, where rows differ by rounding only, which some objectives would divide
    by, and where the two views are not of one width.
    """
    alike = shape(z1, "z1") == shape(z2, "z2")
    if not alike or norms_of_z1.zeros or geometry.norms(z2).zeros or collapse_of_z1.variance < learning.ROUNDING:
        return None
    size = min(batch or BATCH, len(z1))
    return list(_batches(z1, z2, labels, size=size, seed=seed))


def _batches(z1: Array, z2: Array, labels: Tensor | None, *, size: int, seed: int) -> Iterator[tuple[Tensor, ...]]:
    chosen = chosen_rows(len(z1), 8 * size, seed=seed)
    rows1, rows2 = (sampled(z, 8 * size, seed=seed) for z in (z1, z2))
    order = torch.randperm(len(chosen), generator=torch.Generator().manual_seed(seed))
    targets = labels[torch.from_numpy(chosen)] if labels is not None else torch.arange(len(chosen))
    for part in order.split(size):
        if len(part) == size:
            yield rows1[part.to(rows1.device)], rows2[part.to(rows2.device)], targets[part].to(rows1.device)


def _held_out_loss(pairs: Batches, objective: str, hyperparameters: Mapping[str, Any], n: int) -> Estimate:
    """The objective on batches of held-out pairs; with a queue, the other keys of the batch stand in for it.

    Of a single batch nothing is known but its value: the interval is empty.
    """
    function = OBJECTIVES[objective]
    choices = _choices(function)
    parameters = inspect.signature(function).parameters.values()
    tensors = sum(parameter.kind is parameter.POSITIONAL_OR_KEYWORD for parameter in parameters)
    known = {name: value for name, value in hyperparameters.items() if name in choices and name not in FROM_LEARNER}
    values = np.array([float(function(*batch[:tensors], **known)) for batch in pairs])
    seen = len(pairs) * len(pairs[0][0])
    if len(values) == 1:
        return Estimate(float(values[0]), math.nan, math.nan, seen, "one batch: no interval")
    return replace(mean(values, method=f"Student's t over {len(values)} batches"), n=seen)


def _choices(function: Callable[..., Tensor]) -> list[str]:
    parameters = inspect.signature(function).parameters.values()
    return [parameter.name for parameter in parameters if parameter.kind is inspect.Parameter.KEYWORD_ONLY]


def _reading(
    objective: str, hyperparameters: Mapping[str, Any], n: int, loss: float | None = None, batch: int | None = None,
    z1: Array | None = None, held_out_loss: Estimate | None = None,
) -> Thermometer:  # fmt: skip
    """Where the loss stands, given or computed again from the views."""
    d = WIDTH if z1 is None else shape(z1)[1]
    if loss is None and held_out_loss is not None:
        size = min(batch or BATCH, n)
        again = {name: value for name, value in hyperparameters.items() if name not in FROM_LEARNER}
        return read(objective, n=size, d=d, loss=held_out_loss.value, guess=False, **again)
    size = batch or (BATCH if z1 is None else min(BATCH, n))
    found = read(objective, n=size, d=d, loss=loss, guess=z1 is None, **hyperparameters)
    if batch is not None or found.verdict != "impossible":
        return found
    others = (read(objective, n=other, d=d, loss=loss, guess=False, **hyperparameters) for other in OTHER_BATCHES)
    if all(other.verdict == "impossible" for other in others):
        return found
    told = f"No batch of {size} samples can have the loss {loss:.4g}, but others can: say how large the batch was."
    return replace(found, verdict="unknown", sentence=told)


def _negatives(
    z1: Array, z2: Array, pairs: Batches, reading: Thermometer, labels: Tensor | None = None, seed: int = 0
) -> Negatives | None:
    """What negatives do at the objective's temperature; None where it has none."""
    temperature = reading.hyperparameters.get("temperature")
    if temperature is None or reading.objective in UNCOUNTED:
        return None
    return negatives(z1, z2, labels=labels, batch=len(pairs[0][0]), temperature=temperature, seed=seed)


# What rows of both tables may ask for by name, besides what is given.
DERIVED: dict[str, Maker] = {
    "bench": bench,
    "outlying": rows.outlying,
    "body": rows.body,
    "centered": directions.centered,
    "variances": removal.variances,
    "top_share": removal.top_share,
    "without_top": removal.without_top,
    "scaled_columns": columns.scaled_columns,
    "owning_columns": columns.owning_columns,
    "unexplained_lengths": lengths.unexplained_lengths,
    "on_a_grid": rows.on_a_grid,
    "dead": rows.dead,
    "grouped": groups,
    "exact": copying.exact_copies,
    "copies": copying.copies,
    "readers": readers,
    "judged": judged,
    "replaced": replaced,
    "label_shift": pairs.label_shift,
    "matched": matched,
    "moments": lambda h: moments(h),
    "spectrum": lambda moments: spectrum(moments),
    "collapse": collapse,
    "collapse_of_z1": _collapse_of("z1"),
    "collapse_of_z2": _collapse_of("z2"),
    "steady": measures.steadiness,
    "steadiness": _steadiness,
    "block": _block,
    "steady_z1": _steady_z1,
    "norms_of_h": _norms_of_h,
    "norms_of_z1": _norms_of_z1,
    "zeros": _zeros,
    "norm": _norm,
    "divergence": _divergence,
    "h_sample": _h_sample,
    "z1_sample": _z1_sample,
    "sample_labels": _sample_labels,
    "pairs": _pairs,
    "held_out_loss": _held_out_loss,
    "reading": _reading,
    "negatives": _negatives,
    "raw_loss": learning.raw_loss,
    "assigned": assigned,
}

__all__ = ["ABOUT", "DERIVED", "Diagnosis", "diagnose", "find", "gather"]

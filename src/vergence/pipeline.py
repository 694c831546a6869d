"""The stages: train, embed, doctor, compare, report. Each reads the files of the one before.

The command line is made from the signatures here (see ``cli.py``); GLOSSARY holds the meaning of their options. One
file, although a long one: it is the table of contents of the product.
"""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from vergence import assembly, comparison, distributed, features, launch, report
from vergence import data as datasets
from vergence.assessment import assess, certified, freeze, pairs, trained
from vergence.config import Config
from vergence.data.files import label_file
from vergence.diagnostics import thermometer
from vergence.embeddings import finite_pairs, read_embeddings
from vergence.examination import examine
from vergence.information import estimate
from vergence.probing import probed_layers
from vergence.progress import Progress
from vergence.recording import record
from vergence.report.plain import spoken
from vergence.report.reproduction import reproduction_page
from vergence.run import Run, write_bytes
from vergence.stages.views import rank_views
from vergence.tables import Rows

SUFFIXES = {"safetensors": "safetensors", "torch": "pt2", "onnx": "onnx"}
Array = Any  # a path to a file of embeddings, a numpy array or a tensor

GLOSSARY = {
    "run": "the run directory",
    "runs": "run directories",
    "resume": "continue the run that is in the directory, exactly where it stopped",
    "overwrite": "replace the run that is in the directory",
    "devices": "processes that share every batch, one on each accelerator or processor",
    "quiet": "no progress, only the result",
    "data": "the data, written as for train",
    "split": "which part of the data: train, validation or test",
    "output": "where to write",
    "target": "a run directory, or a file of embeddings (.npy, .npz, .safetensors, .parquet, .csv, .pt)",
    "others": "more runs or files: all are examined, and ranked by every label-free score",
    "layers": "a linear probe after every layer of a run's encoder and projector too",
    "protocol": "how linear probes are fitted: lbfgs with a chosen penalty, or saga as Tschannen et al. do it",
    "labels": "a file with a label for each row",
    "z1": "embeddings of one view of the same samples",
    "z2": "embeddings of another view of the same samples",
    "second_view": "embeddings of a second view of the same samples, row by row",
    "objective": "the objective the loss belongs to (see vergence list objectives)",
    "loss": "a loss, to see where it stands between chance and floor",
    "batch": "samples in the batch that gave the loss, or pairs that a trained bound compares at once",
    "width": "dimensions of the embeddings that gave the loss",
    "drop_nan": "leave out rows that hold NaN or infinity",
    "sets": "sets to compare: names of the default list, letters (ad abc ad:0.25; a crop, b blur, c gray, d color, "
    "e flip) or rows of views with options (simclr:strength=1,flip=false); the default list when none is given",
    "samples": "training samples that are looked at, drawn evenly",
    "steps": "steps of every trial; the best third takes as many more, and the best third of those again",
    "side": "images larger than this side in pixels are reduced to it for the trials",
    "per_class": "samples of each class that theory describes",
    "view_count": "views of each sample, itself among them",
    "resamples": "resamplings of the views, for the interval",
    "graph": "build the augmentation graph of the best set too, and show its spectrum",
    "seed": "seed of the random choices",
    "claims": "numbers (42 62) or sources (tschannen) of claims; all when none is given",
    "training": "include the claims that train encoders: minutes to an hour each",
    "scale": "how large the training claims are run: small is for two cores, paper for a GPU",
    "any_version": "reuse what other versions of the code found before",
    "form": "what to write",
    "x": "one variable: a file of rows",
    "y": "the other variable: a file of as many rows",
    "bound": "auto, an estimator (neighbours, copula, neural, entropies, table) or a bound (info_nce, nwj, smile, ...)",
    "critic": "auto, bilinear, separable or concat: what a bound is raised by",
    "bits": "say it in bits too",
    "folds": "parts of the data that take turns: the critic never sees the pairs it is judged on",
    "fail_on": "exit with status 1 on any of these verdicts, separated by commas, such as collapse,impossible",
}


@dataclass(frozen=True)
class Answer:
    """What a stage found: lines for a person, values for a program, and whether a pipeline should stop."""

    lines: tuple[str, ...]
    values: dict[str, Any]
    failed: bool = False

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def to_dict(self) -> dict[str, Any]:
        return self.values


def train(
    settings: Config,
    *,
    run: str | Path = "runs/latest",
    resume: bool = False,
    overwrite: bool = False,
    devices: int = 1,
    quiet: bool = False,
) -> Answer:
    """Train an encoder on unlabelled data; leave a checkpoint, features, a diagnosis and a page in a run directory."""
    together = launch.joined()
    parts = assembly.assemble(settings)
    leads = distributed.rank() == 0
    place = Run.create(run, parts.config, overwrite=overwrite, resume=resume) if leads else Run(run)
    if devices > 1 and not together:
        return _train_together(place, devices, quiet=quiet)
    with place.locked() if leads else nullcontext():
        record(parts, place, leads=leads, quiet=quiet or not leads)
        if not leads:
            return Answer((), {})
        freeze(parts, place)
        assess(place)
    return write_report(place.path)


def embed(run: Path, *, data: str | None = None, split: str = "test", output: Path | None = None) -> Answer:
    """Write the representations of any data under a trained run's encoder to a file (.npy, or .safetensors)."""
    place = Run(run)
    config = place.config
    parts = trained(place)
    samples = assembly.load(config, split) if data is None else datasets.load(data, split=split)
    if samples.shape != parts.samples.shape and samples.kind != "image":
        raise ValueError(f"The run was trained on samples of shape {parts.samples.shape}; these are {samples.shape}.")
    made = features.extract(parts.learner.encoder, samples, parts.recipe, seed=config.seed)
    path = Path(output) if output else Path(run) / f"{split}_h.npy"
    features.write(path, made)
    n, d = made.h.shape
    return Answer((f"{n:,} representations of {d} dimensions: {path}",), {"path": str(path), "n": n, "d": d})


def doctor(
    target: Array | None = None,
    others: tuple[str, ...] = (),
    *,
    labels: Array | None = None,
    second_view: Array | None = None,
    z1: Array | None = None,
    z2: Array | None = None,
    objective: str | None = None,
    loss: float | None = None,
    batch: int | None = None,
    width: int = 128,
    drop_nan: bool = False,
    fail_on: str = "",
    output: Path | None = None,
    data: Array | None = None,
    layers: bool = False,
    protocol: Literal["lbfgs", "saga"] = "lbfgs",
    **hyperparameters: Any,
) -> Answer:
    """Say what you have: a run, anyone's embeddings, or a loss alone; the verdict first, then its evidence.

    ``target`` is a run directory, a file of embeddings, or an array of representations ``h``; ``z1`` and ``z2`` are the
    embeddings of two views of the same samples (``second_view`` pairs ``target`` itself with another view). From
    Python, ``target`` may be an encoder, with the ``data`` to encode. With ``others``, runs or files, all are ranked.
    """
    if others:
        choices = {"labels": labels, "drop_nan": drop_nan, "fail_on": fail_on, "layers": layers, "protocol": protocol}
        return _ranked((target, *others), **choices)
    if isinstance(target, torch.nn.Module):
        target = features.encoded(target, _embeddings(data, drop_nan=drop_nan))
    if target is None:
        results = _loss_alone(objective, loss, batch=batch, width=width, **hyperparameters)
    elif isinstance(target, str | Path) and (Path(target) / "config.yaml").exists():
        results = assess(Run(target), protocol=protocol)
        if layers:
            results["layers"] = probed_layers(Run(target), protocol=protocol)
            Run(target).write_json("results.json", results)
        report.write(target)
    else:
        h, z1, z2 = (_embeddings(source, drop_nan=drop_nan) for source in (target, z1, z2))
        if second_view is not None:
            z1, z2 = h, _embeddings(second_view, drop_nan=drop_nan)
        options = {"objective": objective, "loss": loss, "batch": batch, "protocol": protocol, **hyperparameters}
        labels = _labels(labels)
        results = certified(examine(h, z1=z1, z2=z2, labels=labels, **options).to_dict(), pairs(z1, z2, labels))
        if output is not None:
            Path(output).mkdir(parents=True, exist_ok=True)
            Run(output).write_json("results.json", results)
            features.save(Path(output) / "features.safetensors", features.from_arrays(h, labels).tensors("test"))
            report.write(output)
    return Answer(tuple(spoken(results)), results, failed=_alarmed(results, fail_on))


def compare(runs: tuple[Path, ...], *, output: Path | None = None) -> Answer:
    """Set several runs side by side: accuracies, thermometers, geometry, and the settings in which they differ."""
    rows = {str(path): comparison.row(Run(path)) for path in runs}
    columns = list(dict.fromkeys(key for row in rows.values() for key in row))
    width = max(len(name) for name in rows)
    lines = [" " * width + "  " + "  ".join(columns)]
    for name, row in rows.items():
        lines.append(f"{name:{width}}  " + "  ".join(f"{row.get(key, ''):>{len(key)}}" for key in columns))
    if output is not None:
        write_bytes(Path(output), report.compare([Path(path) for path in runs]).encode())
        lines.append(f"Page: {output}")
    found = {str(path): Run(path).read_json("results.json") or {} for path in runs}
    rankings = comparison.label_free(found) if len(found) > 1 else ()
    lines += [comparison.order(ranking) for ranking in rankings]
    return Answer(tuple(lines), {"runs": rows, "selection": [ranking.to_dict() for ranking in rankings]})


def suit(
    *,
    data: Array = "digits",
    labels: Array | None = None,
    sets: tuple[str, ...] = (),
    samples: int = 3000,
    steps: int = 80,
    side: int = 32,
    per_class: int = 15,
    view_count: int = 8,
    resamples: int = 2,
    graph: bool = False,
    seed: int = 0,
    output: Path | None = None,
    quiet: bool = False,
) -> Any:
    """Rank sets of views by short trials on your data: ties are called ties, and theory describes without deciding."""
    return rank_views(
        data=data, labels=labels, sets=sets, samples=samples, steps=steps, side=side, per_class=per_class,
        view_count=view_count, resamples=resamples, graph=graph, seed=seed, output=output, quiet=quiet,
    )  # fmt: skip


def information(
    x: Array,
    y: Array,
    *,
    bound: str = "auto",
    critic: str = "auto",
    bits: bool = False,
    batch: int = 256,
    folds: int = 3,
    seed: int = 0,
    drop_nan: bool = False,
) -> Answer:
    """Estimate how many nats two variables share, row by row: with an interval, a ceiling and a word on trust."""
    pair = [read_embeddings(rows, column=True) if isinstance(rows, str | Path) else rows for rows in (x, y)]
    if drop_nan:
        pair = finite_pairs(*pair)
    found = estimate(*pair, bound=bound, critic=critic, batch=batch, folds=folds, seed=seed)
    lines = [str(found), *found.reasons]
    if bits:
        lines[0] = f"{found.bits:.3f} bits. {lines[0]}"
    return Answer(tuple(lines), found.to_dict())


def reproduce(
    claims: tuple[str, ...] = (),
    *,
    training: bool = False,
    scale: Literal["smallest", "small", "paper"] = "small",
    any_version: bool = False,
    run: str | Path = "runs/claims",
    quiet: bool = False,
) -> Answer:
    """Run the claims of the sources, all or by number or source, and say of each whether it is confirmed."""
    from vergence.claims import CLAIMS, SOURCES, Laboratory
    from vergence.claims.reproduction import chosen, findings, remembered

    place, found = Path(run), []
    rows = chosen(CLAIMS, claims, training=training)
    with Progress(len(rows), quiet=quiet) as progress:
        laboratory = Laboratory(place, scale, any_version=any_version, say=progress.say)
        minutes = sum(row.minutes for row in rows if row.minutes and remembered(row, laboratory) is None)
        if minutes and scale == "small":
            progress.say(f"about {minutes:.0f} minutes on two cores, less what is known already")
        for finding in findings(rows, laboratory):
            found.append(finding)
            progress.advance(1)
    html = reproduction_page(found, SOURCES, pictures=place / "pictures")
    page = write_bytes(place / "claims.html", html.encode())
    lines = [
        f"{finding.number:>4}  {finding.verdict:13}  {finding.sentence}  ({finding.measured})" for finding in found
    ]
    surprising = [finding for finding in found if not finding.expected]
    lines += [f"{len(found) - len(surprising)} of {len(found)} as the theory expects.", f"Page: {page}"]
    return Answer(tuple(lines), {"claims": [vars(finding) for finding in found]}, failed=bool(surprising))


def export(run: Path, *, output: Path | None = None, form: Literal["safetensors", "torch", "onnx"] = "torch") -> Answer:
    """Write a run's encoder for other programs: weights (safetensors), a torch.export program, or ONNX."""
    parts = trained(Run(run))
    path = Path(output) if output else Path(run) / f"encoder.{SUFFIXES[form]}"
    features.export(parts.learner.encoder, parts.recipe.plain(parts.samples.x[torch.arange(2)]), path, form=form)
    return Answer((f"Encoder of {parts.learner.encoder.width} dimensions: {path}",), {"path": str(path), "form": form})


def write_report(run: Path) -> Answer:
    """Write a run's page again from its files."""
    page = report.write(Run(run).path)
    results = Run(run).read_json("results.json") or {}
    verdict = [f"Verdict: {results['verdict']['label']}. {results['verdict']['sentence']}"] if results else []
    return Answer((*report.summary(run), *verdict, f"Report: {page}"), {"report": str(page), **results})


def _train_together(place: Run, devices: int, *, quiet: bool) -> Answer:
    """Hand a created run to several processes; the first of them finishes it."""
    launch.available(devices)
    status = launch.start(launch.resuming(place.path, quiet=quiet), devices=devices)
    if status:
        saved = place.load()
        step = f"step {saved.step} is saved, --resume continues" if saved else "nothing is saved"
        raise RuntimeError(f"The processes failed with status {status}; {step}.")
    return write_report(place.path)


def _loss_alone(
    objective: str | None, loss: float | None, *, batch: int | None, width: int, **hyperparameters: Any
) -> dict[str, Any]:
    """The results for a loss without embeddings: the thermometer, and what it cannot know."""
    if objective is None or batch is None:
        raise ValueError("Give embeddings or a run; or for a loss alone --objective NAME --batch N, and --loss VALUE.")
    reading = thermometer(objective, n=batch, d=width, loss=loss, **hyperparameters)
    verdict = {"label": reading.verdict, "sentence": reading.sentence, "evidence": list(reading.coincidences)}
    return {"verdict": verdict, "thermometer": reading.to_dict()}


def _embeddings(source: Array | None, *, drop_nan: bool) -> Any:
    if source is None or not isinstance(source, str | Path):
        return source
    return read_embeddings(source, drop_nan=drop_nan)


def _labels(source: Array | None) -> Any:
    return label_file(str(source)) if isinstance(source, str | Path) else source


def _alarmed(results: Mapping[str, Any], fail_on: str) -> bool:
    """Whether the verdict or a fault is one that the caller named; ``collapse`` stands for all its kinds."""
    said = {str(results["verdict"]["label"]), *results.get("faults", ())}
    named = {word.strip() for word in fail_on.split(",") if word.strip()}
    return any(word in fault for word in named for fault in said)


def _ranked(targets: tuple[Array, ...], **options: Any) -> Answer:
    """Several runs or files of embeddings: the verdict on each, and their order by every label-free score."""
    answers = {str(target): doctor(target, **options) for target in targets}
    found = {name: answer.to_dict() for name, answer in answers.items()}
    rankings = comparison.label_free(found) if len(found) > 1 else ()
    lines = [f"{name}: {answer.lines[0]}" for name, answer in answers.items()] + list(map(comparison.order, rankings))
    values = {"targets": found, "selection": [ranking.to_dict() for ranking in rankings]}
    return Answer(tuple(lines), values, failed=any(answer.failed for answer in answers.values()))


STAGES = Rows(
    "verb",
    {
        "train": train,
        "embed": embed,
        "doctor": doctor,
        "views": suit,
        "information": information,
        "compare": compare,
        "report": write_report,
        "reproduce": reproduce,
        "export": export,
    },
)

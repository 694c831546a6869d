"""``vergence doctor``: what you have; of a run, of arrays, of a loss, of several. The verdict, then its evidence."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import torch
from torch import Tensor, nn

from vergence import features, tables, values
from vergence import report as pages
from vergence.data.embeddings import finite_together, read_embeddings, read_labels
from vergence.data.files import label_file, label_values, usable_numbers
from vergence.diagnostics import thermometer
from vergence.diagnostics.alarms import alarmed, check_alarms
from vergence.diagnostics.arrays import Array
from vergence.objectives import OBJECTIVES
from vergence.report.plain import spoken
from vergence.runs import mapping, results, sentences, threads
from vergence.runs.assessment import of_arrays, of_run, of_state
from vergence.runs.mapping import are_shards, shard_files
from vergence.runs.progress import Progress
from vergence.runs.results import TRAINED, Answer, Results, record
from vergence.runs.run import Run
from vergence.stages import compare

NAMED = 300  # characters of a text that a page shows
BATCH = 256  # samples of a batch where its size does not matter
WIDTH = 128  # dimensions of the embeddings that a loss alone is taken to come from

# Which options each kind of target uses; any other is refused by name.
USED = {
    "run": {"layers", "protocol", "evaluate"},
    "model": {"data", "labels", "evaluate", "output", "protocol"},
    "several": {"labels", "drop_nan", "layers", "protocol"},
    "embeddings": {
        "labels", "second_view", "z1", "z2", "objective", "loss", "batch", "drop_nan", "output", "protocol", "key",
    },
    "encoder": {
        "data", "labels", "second_view", "z1", "z2", "objective", "loss", "batch", "drop_nan", "output", "protocol",
    },
    "loss": {"objective", "loss", "batch", "width"},
    "shards": {"drop_nan", "output", "protocol", "processes", "engine"},
}  # fmt: skip
KINDS = {
    "run": "a run, which has labels, views and a loss of its own",
    "several": "several runs or files",
    "model": "a folder of a pretrained model of texts",
    "embeddings": "embeddings",
    "encoder": "an encoder",
    "loss": "a loss alone",
    "shards": "shards of one set, which hold their labels",
}


def doctor(
    target: Any | None = None,
    others: tuple[str, ...] = (),
    *,
    labels: Any | None = None,
    second_view: Any | None = None,
    z1: Any | None = None,
    z2: Any | None = None,
    objective: Any | None = None,
    loss: float | None = None,
    batch: int | None = None,
    width: int = WIDTH,
    drop_nan: bool = False,
    fail_on: str = "",
    output: Path | None = None,
    data: Any | None = None,
    layers: bool = False,
    protocol: Literal["lbfgs", "saga"] = "lbfgs",
    processes: int = 1,
    engine: Literal["processes", "ray"] = "processes",
    evaluate: tuple[str, ...] = (),
    key: str | None = None,
    **hyperparameters: Any,
) -> Answer:
    """Say what you have: a run, anyone's embeddings, or a loss alone; the verdict first, then its evidence.

    ``target`` is a run directory, a file of embeddings, or an array of representations ``h``; ``z1`` and ``z2`` are the
    embeddings of two views of the same samples (``second_view`` pairs ``target`` itself with another view). From
    Python, ``target`` may be an encoder, with the ``data`` to encode. With ``others``, runs or files, all are ranked;
    but a folder or a glob of Parquet files, or several whose names differ in a number only, are the shards of one set:
    ``processes``, or Ray with ``--engine ray``, look through them together. A run on texts, or a folder of
    sentence-transformers or of a Hugging Face model, is judged on ``evaluate`` as well. ``key`` names the array where a
    file holds several; labels may be a column or an array of the same file, and are found there under a usual name.
    """
    check_alarms(fail_on)
    objective = OBJECTIVES.named(objective)  # from Python a function does too
    given = {
        "labels": labels, "second_view": second_view, "z1": z1, "z2": z2, "objective": objective, "loss": loss,
        "batch": batch, "width": None if width == WIDTH else width, "drop_nan": drop_nan or None, "output": output,
        "data": data, "layers": layers or None, "protocol": None if protocol == "lbfgs" else protocol,
        "processes": None if processes == 1 else processes, "engine": None if engine == "processes" else engine,
        "evaluate": evaluate or None, "key": key,
    }  # fmt: skip
    kind = target_kind(target, others)
    if output is not None:
        _folder_to_write(Path(output))
    refuse_unused(kind, {name for name, value in given.items() if value is not None})
    hyperparameters = _checked_hyperparameters(objective, hyperparameters)
    if kind == "shards":
        how: dict[str, Any] = {"processes": processes, "engine": engine, "drop_nan": drop_nan}
        return _of_shards((target, *others), fail_on, output, protocol=protocol, **how)
    if kind == "several":
        choices = {"labels": labels, "drop_nan": drop_nan, "layers": layers, "protocol": protocol}
        return of_several((target, *others), fail_on=fail_on, **{key: value for key, value in choices.items() if value})
    if kind == "loss":
        found = of_loss(objective, loss, batch=batch, width=width, **hyperparameters)
        return _answer(found, fail_on)
    if kind == "run":
        assert target is not None
        found = of_run(Run(target), protocol=protocol, layers=layers, evaluate=evaluate or None)
        page = pages.write(target)
        return _answer(found, fail_on, f"Rewritten: {Path(target) / results.FILE}, {page}")
    if kind == "model":
        return _of_model(Path(str(target)), data, _labels(labels), evaluate, fail_on, output, protocol)
    if isinstance(target, nn.Module):
        target = features.encoded(target, _embeddings(data, drop_nan=drop_nan))
    known = _labels(labels, target, key)
    h, z1, z2 = (_embeddings(source, drop_nan=False, key=key) for source in (target, z1, z2))
    known = known if labels is not None or known is None or len(known) == len(h) else None
    if second_view is not None:
        z1, z2 = h, _embeddings(second_view, drop_nan=False)
    if drop_nan:
        (h, z1, z2), known = finite_together((h, z1, z2), known)
    options = {"objective": objective, "loss": loss, "batch": batch, "protocol": protocol, **hyperparameters}
    found = of_arrays(h, z1=z1, z2=z2, labels=known, **options)
    return _answer(found, fail_on, *(_paged(found, h, known, Path(output)) if output is not None else ()))


def _of_model(
    folder: Path, data: Any, labels: Any, evaluate: tuple[str, ...], fail_on: str, output: Path | None, protocol: str
) -> Answer:
    """A pretrained model of texts: the rows that it makes of ``data``, or of the texts that it is evaluated on."""
    texts, known = sentences.texts_for(data, evaluate)
    known = labels if labels is not None else known
    reader, _ = sentences.model_reader(folder)
    h = reader(texts)
    found = of_arrays(h, labels=known, words=sentences.word_facts(texts), protocol=protocol)
    encoders: dict[str, Any] = {TRAINED: reader, **sentences.beside(reader.encoder, reader.tokens, reader.length)}
    judged = sentences.evaluated(evaluate, encoders, None)
    named = tuple(text[:NAMED] for text in texts[: features.THUMBNAILS])
    found = msgspec.structs.replace(found, sentences=judged, kind="text", names=named)
    return _answer(found, fail_on, *(_paged(found, h, known, Path(output)) if output is not None else ()))


def of_loss(
    objective: str | None, loss: float | None, *, batch: int | None, width: int = 128, **hyperparameters: Any
) -> Results:
    """What a loss says without embeddings: where it stands on its scale, and what that cannot tell."""
    options = {key: value for key, value in hyperparameters.items() if value is not None}
    if batch is not None and batch < 2:
        raise ValueError(f"--batch must be at least 2, got {batch}.")
    if objective is None or (batch is None and not _same_for_any_batch(objective, width, **options)):
        raise ValueError("Give embeddings or a run; or for a loss alone --objective NAME --batch N, and --loss VALUE.")
    reading = thermometer(objective, n=batch or BATCH, d=width, loss=loss, **options)
    verdict = results.Verdict(reading.verdict, reading.sentence, tuple(reading.coincidences))
    return Results(verdict=verdict, thermometer=record(results.Reading, reading.to_dict()))


def _same_for_any_batch(objective: str, width: int, **options: Any) -> bool:
    """Whether an objective's scale does not depend on the batch: a cosine has none, a queue has its own size."""
    first, second = (thermometer(objective, n=n, d=width, **options) for n in (BATCH, 2 * BATCH))
    return (first.chance, first.floor, first.ceiling) == (second.chance, second.floor, second.ceiling)


def _of_shards(
    targets: tuple[Any, ...], fail_on: str, output: Path | None, *, protocol: str, drop_nan: bool, **how: Any
) -> Answer:
    """The shards of one set, looked through part by part and merged; then the rows that were kept are examined."""
    files = [file for target in targets for file in shard_files(target)]
    with mapping.workers(**how) as workers:
        with Progress(len(files)) as bar:
            state = mapping.examined(files, workers, drop_nan=drop_nan, saying=bar.reach)
        with threads.used(max(workers.count, torch.get_num_threads())):  # the cores of the processes are free again
            found = of_state(state, protocol=protocol, pool=workers.pool)
    lines = [f"{state.n:,} rows of {state.d} dimensions in {len(files)} shards."]
    return _answer(found, fail_on, *lines, *(_paged(found, *state.rows(), Path(output)) if output is not None else ()))


def of_several(targets: tuple[Any, ...], *, fail_on: str = "", **options: Any) -> Answer:
    """Several runs or files of embeddings: the verdict on each, and which of them may be ranked, by what."""
    found = {str(target): _one(target, **options) for target in targets}
    settings = {str(target): compare.alike_by(Run(target)) if _is_run(target) else {} for target in targets}
    rankings, refusal = compare.label_free(found, settings) if len(found) > 1 else ((), None)
    lines = [f"{name}: {next(iter(spoken(each)))}" for name, each in found.items()]
    lines += [*([refusal] if refusal else []), *(compare.order(ranking) for ranking in rankings)]
    answer = {
        "targets": {name: each.to_dict() for name, each in found.items()},
        "selection": [ranking.to_dict() for ranking in rankings],
        "not_ranked": refusal,
    }
    return Answer(tuple(lines), answer, failed=any(_failed(each, fail_on) for each in found.values()))


def _one(target: Any, **options: Any) -> Results:
    if _is_run(target):
        used = {key: value for key, value in options.items() if key in ("protocol", "layers")}
        return of_run(Run(target), **used)
    h, labels = _embeddings(target, drop_nan=False), _labels(options.get("labels"))
    if options.get("drop_nan"):
        (h,), labels = finite_together((h,), labels)
    return of_arrays(h, labels=labels, protocol=options.get("protocol", "lbfgs"))


# At the door


def target_kind(target: Any, others: tuple[str, ...] = ()) -> str:
    """What the doctor is asked about, as a key of USED."""
    if isinstance(target, str | Path) and not _is_run(target) and are_shards((str(target), *map(str, others))):
        return "shards"
    if others:
        return "several"
    if target is None:
        return "loss"
    if isinstance(target, nn.Module):
        return "encoder"
    if sentences.is_model(target):
        return "model"
    return "run" if _is_run(target) else "embeddings"


def refuse_unused(kind: str, given: set[str]) -> None:
    """Refuse options that the target would ignore: whoever gave one believes that it counted."""
    unused = sorted(given - USED[kind])
    if unused:
        words = ", ".join(f"--{name.replace('_', '-')}" for name in unused)
        raise ValueError(f"{words} would not be used: the target is {KINDS[kind]}.")
    if kind in ("embeddings", "encoder") and given & {"loss", "batch"} and "objective" not in given:
        raise ValueError("--loss and --batch are read with --objective NAME, which is missing.")
    if "second_view" in given and given & {"z1", "z2"}:
        raise ValueError(
            "--second-view pairs the target itself with another view; give it, or --z1 and --z2, not both."
        )


def _checked_hyperparameters(objective: str | None, hyperparameters: Mapping[str, Any]) -> dict[str, Any]:
    """Hyperparameters of an objective, each of its type and in range; the number of negatives beside them."""
    known = tables.keywords("objectives", objective) if objective else {}
    own = {name: parameter for name, parameter in known.items() if name not in tables.FROM_LEARNER}
    given = {key: value for key, value in hyperparameters.items() if value is not None}
    counts: dict[str, Any] = {
        key: given.pop(key) for key in ("negatives", "hard_negatives", "classes") if key in given and key not in own
    }
    return {**values.checked(given, own, objective or ""), **counts}


def _answer(found: Results, fail_on: str, *lines: str) -> Answer:
    return Answer((*spoken(found), *lines), found.to_dict(), failed=_failed(found, fail_on))


def _failed(found: Results, fail_on: str) -> bool:
    return alarmed({found.verdict.label, *found.faults}, fail_on)


def _paged(found: Results, h: Array, labels: Any, folder: Path) -> tuple[str, ...]:
    """A page of foreign rows: the results and what the map shows, as files in a folder."""
    found.write(folder)
    features.save(folder / "features.safetensors", features.from_arrays(h, labels).tensors("test"))
    return (f"Page: {pages.write(folder)}",)


def _folder_to_write(folder: Path) -> None:
    """Make the folder before the examination, so that what cannot be made is said first."""
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"{folder} is a file; name a folder for the page.")
    if (folder / "config.yaml").exists():
        raise FileExistsError(f"{folder} holds a run, whose results these would replace: name another folder.")
    folder.mkdir(parents=True, exist_ok=True)


def _is_run(target: Any) -> bool:
    return isinstance(target, str | Path) and (Path(target) / "config.yaml").exists()


def _embeddings(source: Any | None, *, drop_nan: bool, key: str | None = None) -> Any:
    if source is None:
        return None
    if not isinstance(source, str | Path):
        return usable_numbers(source, "The array") if hasattr(source, "dtype") else source
    return read_embeddings(source, drop_nan=drop_nan, name=key)


def _labels(source: Any | None, target: Any = None, key: str | None = None) -> Any:
    """Labels that are given, of a file or of a column of the target's own file; else those found in that file."""
    beside = target if isinstance(target, str | Path) else None
    if source is None:
        return None if beside is None else read_labels(beside, key=key)
    if isinstance(source, Tensor):
        return source
    if isinstance(source, str) and beside is not None and not Path(source).exists() and Path(source).suffix == "":
        return read_labels(beside, source, key=key)
    return label_file(str(source)) if isinstance(source, str | Path) else label_values(np.asarray(source))

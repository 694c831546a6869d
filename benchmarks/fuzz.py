"""The fuzzing campaign: damaged files, nonsense arguments. ``make fuzz``, or ``benchmarks/fuzz.py --inputs 1000``.

Every kind of file that is read is mutated (bits, spans, numbers, words of the format, pieces of other files), as are
YAML settings, logs, run directories and the arguments of every verb. An input is *accepted*, or *refused* in a
sentence. It fails when anything else comes of it: an exception that no reader promises, a traceback, a hang, a dead
process, code that the input brought along, or an answer that cannot be true. Each family runs in a process of its own
with little memory, so that what kills the process is counted as well.
"""

import argparse
import contextlib
import dataclasses
import functools
import io
import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import yaml
from PIL import Image
from safetensors.numpy import save_file

from vergence import cli, data
from vergence import config as configs
from vergence.config import Config
from vergence.data.embeddings import read_embeddings
from vergence.report import pieces
from vergence.runs.run import Run
from vergence.stages import doctor, embed, export, report  # noqa: F401 - loaded before the clock runs

PATIENCE, ASLEEP = 30, 300  # seconds of processor, or of the clock, after which an input counts as a hang
MEMORY = 3 * 2**30  # bytes beyond what the process has, so that a bomb ends in an error and not in the machine
REFUSED = (ValueError, OSError, ImportError, MemoryError)
WORDS = [
    b"nan", b"inf", b"-1", b"0", b"1e999", b"99999999999999999999", b"null", b"{}", b"[]", b"true", b"'", b'"', b"\x00",
    b"\xff\xfe", b"|O", b"<c16", b"<f8", b">i2", b"<M8[s]", b"<U9", b"|V8", b"(9999999999, 8)", b"()", b"(-1, 2)",
    b"fortran_order", b"True", b"F64", b"BF16", b"I64", b"data_offsets", b"shape", b"\n", b"\t", b",", b": ", b"- ",
    b"&a [*a]", b"*a", b"!!python/object/apply:os.system [touch EXECUTED]", b"PK\x03\x04", b"\x80\x04", b"\xc3\x28",
]  # fmt: skip
NUMBERS = ["0", "-1", "1", "2", "255", "65536", "2147483648", "9999999999999999999", "1e400", "nan", "inf", ".5", ""]


class Family(NamedTuple):
    """Inputs of one kind: ``make`` writes number i into a folder, ``judge`` gives what became of it."""

    name: str
    share: int  # of a thousand inputs
    prepare: Callable[[Path], Any]
    judge: Callable[[Path, Any, random.Random], str]


class Nonsense(Exception):
    """An answer that cannot be true."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="families by name, separated by commas")
    choices = parser.parse_args()
    torch.set_num_threads(1)
    failures = 0
    print(f"{'family':22} {'inputs':>8} {'accepted':>9} {'refused':>8} {'failed':>7} {'seconds':>8}", flush=True)
    total: Counter[str] = Counter()
    for family in FAMILIES:
        if choices.only and family.name not in choices.only.split(","):
            continue
        began = time.monotonic()
        counts = campaign(family, max(1, choices.inputs * family.share // 1000), seed=choices.seed)
        failed = sum(number for what, number in counts.items() if what not in ("accepted", "refused"))
        seconds = time.monotonic() - began
        line = f"{family.name:22} {counts.total():>8} {counts['accepted']:>9} {counts['refused']:>8} {failed:>7}"
        print(f"{line} {seconds:>8.0f}", flush=True)
        failures += failed
        total += counts
    print(f"{total.total():,} inputs: {failures} failed.")
    sys.exit(bool(failures))


def campaign(family: Family, count: int, *, seed: int = 0, shown: int = 5) -> Counter[str]:
    """What became of ``count`` inputs of a family; the first failures are printed with the seed that repeats them."""
    counts: Counter[str] = Counter()
    start = 0
    while start < count:
        receiver, sender = multiprocessing.Pipe(duplex=False)
        process = multiprocessing.get_context("fork").Process(
            target=_work, args=(family, start, count, seed, sender), daemon=True
        )
        process.start()
        sender.close()
        number = start
        with contextlib.suppress(EOFError):
            while True:
                number, outcome, detail = receiver.recv()
                counts[outcome] += 1
                if outcome not in ("accepted", "refused") and shown:
                    shown -= 1
                    print(f"  {family.name} {seed}:{number} {outcome}: {detail}", flush=True)
                number += 1
        process.join()
        if process.exitcode == 0:
            break
        counts["died"] += 1
        print(f"  {family.name} {seed}:{number} died with status {process.exitcode}", flush=True)
        start = number + 1
    return counts


def _work(family: Family, start: int, count: int, seed: int, sender: Any) -> None:
    """Judge the inputs one after the other, in a folder of their own."""
    signal.signal(signal.SIGALRM, _hung)
    signal.signal(signal.SIGPROF, _hung)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, resource.RLIM_INFINITY))
    os.fsync = lambda handle: None  # nothing here has to outlive the machine
    quiet = open(os.devnull, "w")  # noqa: SIM115 - as long as the process
    os.dup2(quiet.fileno(), 2)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "here"  # so that ../x names nothing of this machine
        place.mkdir()
        os.chdir(place)
        prepared = family.prepare(place)
        for number in range(start, count):
            outcome, detail = judged(family, place, prepared, random.Random(f"{family.name} {seed} {number}"))
            sender.send((number, outcome, detail))
    sender.close()


def judged(family: Family, place: Path, prepared: Any, dice: random.Random) -> tuple[str, str]:
    """What became of one input: accepted, refused, or a failure and its description."""
    signal.alarm(ASLEEP)
    signal.setitimer(signal.ITIMER_PROF, PATIENCE)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            outcome = family.judge(place, prepared, dice)
        detail = ""
    except REFUSED:
        outcome, detail = "refused", ""
    except RuntimeError as error:
        ours = isinstance(error, cli.OURS)
        outcome, detail = ("failed" if ours else "refused"), f"{type(error).__name__}: {error}"
    except _Hung as error:
        outcome, detail = "hung", str(error)
    except Exception as error:
        outcome, detail = "failed", f"{type(error).__name__}: {str(error)[:300]}"
    finally:
        signal.alarm(0)
        signal.setitimer(signal.ITIMER_PROF, 0)
    if any(place.rglob("EXECUTED")):
        return "executed code", detail
    return outcome, detail


class _Hung(BaseException):  # no reader's ``except Exception`` may take it for a damaged file
    pass


def _hung(number: int, *_: object) -> None:
    spent = f"{PATIENCE} s of processor" if number == signal.SIGPROF else f"{ASLEEP} s"
    raise _Hung(f"no answer in {spent}")


# Mutations


def mutated(raw: bytes, dice: random.Random, others: list[bytes] | None = None) -> bytes:
    """Bytes with one to four things done to them."""
    found = bytearray(raw)
    for _ in range(dice.choice([1, 1, 2, 4])):
        dice.choice(MUTATIONS)(found, dice, others or [raw])
    return bytes(found)


def _flip(raw: bytearray, dice: random.Random, others: list[bytes]) -> None:
    if raw:
        raw[_place(raw, dice)] ^= 1 << dice.randrange(8)


def _overwrite(raw: bytearray, dice: random.Random, others: list[bytes]) -> None:
    if raw:
        raw[_place(raw, dice)] = dice.choice([0, 1, 127, 128, 255, dice.randrange(256)])


def _cut(raw: bytearray, dice: random.Random, others: list[bytes]) -> None:
    del raw[dice.randrange(len(raw) + 1) :]


def _remove(raw: bytearray, dice: random.Random, others: list[bytes]) -> None:
    start = _place(raw, dice)
    del raw[start : start + dice.choice([1, 2, 8, 64])]


def _repeat(raw: bytearray, dice: random.Random, others: list[bytes]) -> None:
    start = _place(raw, dice)
    raw[start:start] = raw[start : start + dice.choice([1, 8, 64])] * dice.choice([1, 2, 50])


def _word(raw: bytearray, dice: random.Random, others: list[bytes]) -> None:
    start, word = _place(raw, dice), dice.choice(WORDS)
    raw[start : start + dice.choice([0, len(word)])] = word


def _number(raw: bytearray, dice: random.Random, others: list[bytes]) -> None:
    """Another number in place of one that is written in digits."""
    digits = [place for place, byte in enumerate(raw[:4096]) if 48 <= byte <= 57]
    if digits:
        start = end = dice.choice(digits)
        while end < len(raw) and 48 <= raw[end] <= 57:
            end += 1
        raw[start:end] = dice.choice(NUMBERS).encode()


def _splice(raw: bytearray, dice: random.Random, others: list[bytes]) -> None:
    other = dice.choice(others)
    start = dice.randrange(len(other) + 1)
    raw[_place(raw, dice) :] = other[start : start + 4096]


def _place(raw: bytearray, dice: random.Random) -> int:
    """A position, more often near the beginning, where headers are, or the end, where zip files keep theirs."""
    span = max(1, len(raw))
    near = min(span, 256)
    return dice.choice([dice.randrange(span), dice.randrange(near), span - 1 - dice.randrange(near)])


MUTATIONS = (_flip, _flip, _overwrite, _cut, _remove, _repeat, _word, _word, _number, _splice)


# Files of arrays


def array_files(place: Path) -> dict[str, list[bytes]]:
    """Sound files of every kind, and some that bring code along, by their ending."""
    rows = np.random.default_rng(0).standard_normal((12, 3))
    label = np.arange(12) % 3
    made = {
        ".npy": [_npy(rows), _npy(rows.astype("f4")), _npy(np.asfortranarray(rows)), _npy((rows * 9).astype("i2"))],
        ".npz": [_archive(x=rows, y=label), _archive(embeddings=rows.astype("f2"))],
        ".csv": ["\n".join(",".join(map(str, row)) for row in rows.round(3)).encode(), b"a,b\n1,2\n3,4\n5,6\n"],
        ".safetensors": [_tensors(place, h=rows.astype("f4"), labels=label), _tensors(place, z=rows)],
        ".pt": [_torch(place, torch.tensor(rows)), _torch(place, {"h": torch.tensor(rows)})],
    }
    made[".npy"].append(_npy(np.array([Payload()] * 3, dtype=object)))
    made[".pt"].append(_torch(place, [Payload()]))
    made[".parquet"] = [_parquet(place, rows)] if _has_parquet() else []
    return {ending: raws for ending, raws in made.items() if raws}


class Payload:
    """Runs a command when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch EXECUTED",)


def _npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def _archive(**arrays: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def _tensors(place: Path, **arrays: np.ndarray) -> bytes:
    save_file(arrays, place / "seed")
    return (place / "seed").read_bytes()


def _torch(place: Path, value: Any) -> bytes:
    torch.save(value, place / "seed")
    return (place / "seed").read_bytes()


def _has_parquet() -> bool:
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        return False
    return True


def _parquet(place: Path, rows: np.ndarray) -> bytes:
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"embedding": rows.tolist(), "label": list(range(len(rows)))}), place / "seed")
    return (place / "seed").read_bytes()


def judge_embeddings(place: Path, files: dict[str, list[bytes]], dice: random.Random) -> str:
    """A mutated file of embeddings, read by name, as labels, as data, and now and then examined."""
    ending = dice.choice(list(files))
    file = place / f"input{dice.choice([ending] * 9 + ['.npy'])}"
    file.write_bytes(mutated(dice.choice(files[ending]), dice, [raw for raws in files.values() for raw in raws]))
    if dice.random() < 0.01:
        return by_command(["doctor", file.name])
    found = read_embeddings(file, column=dice.random() < 0.5, drop_nan=dice.random() < 0.3)
    real = found.dtype.is_floating_point if isinstance(found, torch.Tensor) else found.dtype.kind in "fiub"
    whole = isinstance(found, torch.Tensor) and not found.dtype.is_complex
    if len(found.shape) != 2 or not (real or whole):
        raise Nonsense(f"rows of {found.dtype} and shape {tuple(found.shape)}")
    return "accepted"


def judge_arrays(place: Path, files: dict[str, list[bytes]], dice: random.Random) -> str:
    """A mutated array as data, with labels that may be mutated too."""
    ending = dice.choice([ending for ending in files if ending in (".npy", ".npz", ".parquet")])
    file = place / f"input{ending}"
    file.write_bytes(mutated(dice.choice(files[ending]), dice))
    options = dice.choice(["", "", ",kind=series", ",kind=text", ",limit=5", ",validation=0.5", ",labels=y.npy"])
    if "labels" in options:
        seeds = [_npy(np.arange(12) % 3), _npy(np.array([b"a", b"b"] * 6)), _npy(np.array(["a", "b"] * 6))]
        (place / "y.npy").write_bytes(mutated(dice.choice(seeds), dice))
    samples = data.load(f"array:{file}{options}", split=dice.choice(["train", "test", "all"]))
    if samples.kind != "text" and not bool(torch.isfinite(samples.x[torch.arange(len(samples))].float()).all()):
        raise Nonsense("samples that are not finite")
    return "accepted"


# Texts, series, images


def other_files(place: Path) -> dict[str, list[bytes]]:
    generator = np.random.default_rng(0)
    picture = Image.fromarray(generator.integers(0, 255, (9, 12, 3), dtype=np.uint8))
    images = {}
    for ending in (".png", ".jpg", ".gif", ".bmp", ".tif", ".webp"):
        buffer = io.BytesIO()
        picture.save(buffer, {".jpg": "jpeg", ".tif": "tiff"}.get(ending, ending[1:]))
        images[ending] = [buffer.getvalue()]
    text = b"label\ttext\nyes\tthe cat sat\nno\ta dog ran\n" + b"yes\tmore words here\nno\tand fewer\n" * 4
    series = "\n".join("\t".join(map(str, [k % 2, *generator.standard_normal(6).round(2)])) for k in range(8)).encode()
    long = _archive(x=generator.standard_normal((60, 2)), offset=np.array([0, 20, 40, 60]), y=np.array([0, 1, 0]))
    return {**images, ".txt": [text, b"one line\nand another\nand a third\n"], ".tsv": [series], ".npz": [long]}


def judge_others(place: Path, files: dict[str, list[bytes]], dice: random.Random) -> str:
    """A mutated picture in a folder, text, table of series or archive of recordings, loaded as data."""
    ending = dice.choice(list(files))
    raw = mutated(dice.choice(files[ending]), dice)
    if ending in (".txt", ".tsv", ".npz"):
        file = place / f"input{ending}"
        file.write_bytes(raw)
        options = dice.choice([",window=5", ",window=5,stride=3", ""]) if ending == ".npz" else ""
        kind = "text" if ending == ".txt" else "series"
        data.load(f"{kind}:{file}{options}", split=dice.choice(["train", "test", "all"]))
        return "accepted"
    folder = place / "folder"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / f"a{ending}").write_bytes(raw)
    for number in range(2):
        (folder / f"{number}.png").write_bytes(files[".png"][0])
    if dice.random() < 0.3:
        rows = f"file,caption\na{ending},one\n0.png,two\n1.png,three\n".encode()
        (folder / "captions.csv").write_bytes(mutated(rows, dice))
    samples = data.load(f"folder:{folder},size=8", split="all", fewest=1)
    if len(samples) + len(samples.skipped) != 3:
        raise Nonsense("a file that is neither read nor named as skipped")
    return "accepted"


# Settings and logs


def settings(place: Path) -> list[bytes]:
    texts = [Config().to_yaml(), Config(method="moco", encoder="mlp", backbone={"hidden": (8,)}).to_yaml()]
    more = [
        "method: byol\nobjective: {}\nheads: {momentum: 0.9, projector: [8, 4]}\n",
        "optim: {name: sgd}\nepochs: 3\n",
    ]
    more.append("a: &a [1, 2]\nb: &b [*a, *a, *a]\nc: &c [*b, *b, *b]\nd: [*c, *c, *c]\n")
    return [text.encode() for text in texts + more]


def judge_settings(place: Path, seeds: list[bytes], dice: random.Random) -> str:
    """Mutated YAML, or settings of the wrong type; what is accepted must survive being written and read again."""
    file = place / "config.yaml"
    if dice.random() < 0.4:
        flat = yaml.safe_load(seeds[0])
        _spoil(flat, dice)
        file.write_text(yaml.safe_dump(flat))
    else:
        file.write_bytes(mutated(dice.choice(seeds), dice, seeds))
    found = configs.read(file)
    found.write(file)
    if configs.read(file) != found:
        raise Nonsense("settings that change when they are written and read again")
    rate = found.objective.get("temperature", 1.0)
    if not 0 < rate < float("inf"):
        raise Nonsense(f"a temperature of {rate}")
    return "accepted"


def _spoil(values: dict[str, Any], dice: random.Random) -> None:
    """Put something of the wrong type or size somewhere into settings."""
    places = [(values, key) for key in values]
    places += [(inner, key) for inner in values.values() if isinstance(inner, dict) for key in inner]
    holder, key = dice.choice(places)
    wrong = [
        None,
        True,
        -1,
        0,
        10**20,
        1.5,
        float("nan"),
        float("inf"),
        "",
        "word",
        [],
        [1],
        ["a"],
        {},
        {"a": 1},
        [[1]],
    ]
    holder[dice.choice([key, key, key, "temperature", 3])] = dice.choice(wrong)


def judge_log(place: Path, prepared: Any, dice: random.Random) -> str:
    """A mutated log: it is read and cut back, and what is left are rows of numbers."""
    run = Run(place)
    rows = [{"step": k, "epoch": k / 4, "loss": 1.0 / (k + 1), "learning_rate": 0.1} for k in range(1, 9)]
    raw = "".join(json.dumps(row) + "\n" for row in rows).encode()
    (place / "log.jsonl").write_bytes(mutated(raw, dice, [b"null\n{}\n[1]\n\xff\n" + b"[" * 5000]))
    found = run.rows()
    if any(not isinstance(row["step"], int) or not isinstance(sum(row.values()), int | float) for row in found):
        raise Nonsense("a row that is not of numbers")
    run.rewind(4, keep=1)
    if any(row["step"] > 4 for row in run.rows()):
        raise Nonsense("a row after the step that was gone back to")
    return "accepted"


# Run directories and arguments


def a_run(place: Path) -> Path:
    """A small finished run."""
    quick = ["--epochs", "1", "--batch", "16", "--limit", "60", "--encoder", "mlp", "--backbone.hidden", "8"]
    quick += ["--heads.projector", "8", "--track", "--quiet", "--watching.every", "0"]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        status = cli.main(["train", "--data", "digits", "--run", str(place / "run"), *quick])
        assert status == 0
        cli.main(["embed", str(place / "run"), "--output", str(place / "sound.npy")])
    draw = np.random.default_rng(0)
    np.save(place / "e.npy", draw.standard_normal((60, 4)))
    np.save(place / "v.npy", draw.standard_normal(60))
    (place / "p.tsv").write_text("".join(f"one {k}\tother {k}\n" for k in range(40)))
    return place / "run"


@contextlib.contextmanager
def drawn_seldom(dice: random.Random) -> Iterator[None]:
    """Pictures are drawn for one page of five only: they take most of its time."""
    drawn = pieces.drawn
    if dice.random() < 0.8:
        pieces.drawn = lambda figure, **options: "<svg></svg>"
    try:
        yield
    finally:
        pieces.drawn = drawn


def judge_run(place: Path, run: Path, dice: random.Random) -> str:
    """A run with one damaged file, given to a verb that reads it."""
    path = place / "copy"
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(run, path)
    files = [file for file in sorted(path.rglob("*")) if file.is_file() and file.suffix not in (".html", "")]
    file = dice.choice(files)
    file.write_bytes(mutated(file.read_bytes(), dice))
    weights = ["export", "--form", "safetensors"]
    verb = dice.choice([["report"], ["report"], ["compare"], ["embed", "--output", "h.npy"], weights, ["doctor"]])
    verb = ["report"] if verb == ["doctor"] and dice.random() < 0.9 else verb
    with drawn_seldom(dice):
        outcome = by_command([verb[0], "copy", *verb[1:]])
    weights = verb[0] == "embed" and outcome == "accepted" and file.parent.parent.name == "checkpoints"
    if weights and not np.array_equal(np.load("h.npy"), np.load("sound.npy")):
        raise Nonsense("other representations from a damaged checkpoint")
    return outcome


def judge_arguments(place: Path, run: Path, dice: random.Random) -> str:
    """A command that works, with one to three things done to it. A poisoned one must never succeed."""
    verb = dice.choice([*COMMANDS, "doctor", "embed", "nothing"])
    words = COMMANDS.get(verb, "run").split()
    for _ in range(dice.choice([0, 1, 1, 2, 3])):
        _disorder(verb, words, dice)
    poison = dice.choice([[]] * 6 + [["--fail-on", "colapse"], ["--objective.temperature", "nan"], ["--devices", "0"]])
    shutil.rmtree("new", ignore_errors=True)
    shutil.rmtree("shards", ignore_errors=True)
    outcome = by_command([verb, *words, *poison])
    if poison and outcome == "accepted" and "--help" not in words:
        raise Nonsense(f"{' '.join([verb, *words, *poison])} was accepted")
    return outcome


# A command of each verb that is accepted and takes little time; `watch` would not end, so its folder is a file.
COMMANDS = {
    "train": "--data array:e.npy --run new --overwrite --epochs 0 --batch 4 --encoder mlp --track tensorboard --quiet",
    "embed": "run --output out.npy --quiet",
    "doctor": "e.npy",
    "views": "--data array:e.npy --steps 2 --samples 40 --per-class 3 --view-count 2 --resamples 1 --quiet",
    "information": "e.npy v.npy --bound neighbors",
    "compare": "run run",
    "report": "run --quiet",
    "reproduce": "1 --run claims --quiet",
    "finetune": "run --labels all --steps 1 --draws 1 --quiet",
    "mine": "run pairs:p.tsv",
    "export": "run --form safetensors --output out.safetensors",
    "shard": "array:e.npy shards --records 20 --quiet",
    "watch": "e.npy --port 0",
    "list": "methods",
}
VALUES = ["0", "-1", "1", "3", ".5", "nan", "inf", "1e400", "99999999999999999999", "", "x", "é", "\x00", "a" * 3000,
          "-", "--", "--json", "--help", "run", "e.npy", "v.npy", "nowhere", "nowhere.npy", "p.tsv", "array:e.npy",
          "digits", "text:p.tsv", "run/config.yaml", "run/log.jsonl", ".", "/dev/null", "{}", "nt_xent", "all", ",",
          "=", "../x", "$(touch EXECUTED)", "train", "5-per-class"]  # fmt: skip


def _disorder(verb: str, words: list[str], dice: random.Random) -> None:
    """One thing done to a command: a value, an option of the verb, a word that is lost, repeated or elsewhere."""
    position, kind = dice.randrange(len(words) + 1), dice.randrange(6)
    if kind < 2 or not words:
        words[position:position] = [dice.choice(options(verb)), *dice.choices(VALUES, k=dice.choice([0, 1, 1, 1, 2]))]
    elif kind < 4:
        words[position : position + 1] = [dice.choice(VALUES)]
    elif kind == 4:
        del words[position : position + 1]
    else:
        words.insert(position, dice.choice(words))


@functools.cache
def options(verb: str) -> list[str]:
    """The options of a verb, with those of settings and of an objective."""
    if verb not in COMMANDS:
        return ["--json"]
    found = _options(cli.form(verb, ["--objective", "info_nce"] if verb == "doctor" else []))
    return [f"--{name.replace('_', '-')}" for name in found if name not in ("devices", "compute.compile", "engine")]


def _options(form: type, prefix: str = "") -> list[str]:
    found = []
    for field in dataclasses.fields(form):
        kind = field.type if dataclasses.is_dataclass(field.type) else None
        found += _options(kind, f"{prefix}{field.name}.") if isinstance(kind, type) else [prefix + field.name]
    return found


def by_command(arguments: list[str]) -> str:
    """What ``vergence ARGUMENTS`` does with them."""
    said, answer = io.StringIO(), io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(answer):
        try:
            status = cli.main(arguments)
        except SystemExit as error:
            status = error.code if isinstance(error.code, int) else cli.MISUSED
    shown, errors = f"vergence {' '.join(arguments)[:300]}: {said.getvalue()[:300]}", said.getvalue().strip()
    if status not in (0, cli.FAILED, cli.MISUSED) or "Traceback" in errors or "Warning:" in errors:
        raise Nonsense(f"{shown} (status {status})")
    if status == cli.MISUSED and (not errors or answer.getvalue()):
        raise Nonsense(f"{shown} (refused without a word, or with an answer)")
    if status != cli.MISUSED and "--json" in arguments and "--help" not in arguments:
        json.loads(answer.getvalue(), parse_constant=_not_json)
    return "accepted" if status != cli.MISUSED else "refused"


def _not_json(word: str) -> None:
    raise Nonsense(f"{word} in JSON")


FAMILIES = (
    Family("embeddings", 450, array_files, judge_embeddings),
    Family("arrays and labels", 200, array_files, judge_arrays),
    Family("images texts series", 100, other_files, judge_others),
    Family("settings (YAML)", 150, settings, judge_settings),
    Family("logs", 80, lambda place: None, judge_log),
    Family("run directories", 8, a_run, judge_run),
    Family("arguments", 12, a_run, judge_arguments),
)


if __name__ == "__main__":
    main()

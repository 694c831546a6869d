"""The fault campaign: what a run survives, in figures. ``make faults``, or ``python benchmarks/faults.py --kills 20``.

Processes that train are forked, run the same functions as ``vergence train`` and are killed at random moments; a run
is continued until it ends and is then compared, byte by byte, with one that nobody disturbed.
"""

import argparse
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from ctypes import c_int
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from vergence import cli
from vergence.config import Config, Saving, Watching
from vergence.runs import assembly, launch
from vergence.runs.run import FACTS, MANIFEST, TENSORS, Run
from vergence.stages import train as stage

# Small, with everything that has to be carried over: moments, a moving average, a queue, a best checkpoint.
CONFIG = Config(
    data="digits",
    method="moco",
    encoder="mlp",
    backbone={"hidden": (32,)},
    heads={"projector": (32, 16), "queue": 256},
    epochs=12,
    batch=64,
    limit=256,
    watching=Watching(every=3, samples=64),
    saving=Saving(every=1, best="knn"),
)
PHASES = ("starting", "training", "saving", "assessing", "reporting")
FORK = multiprocessing.get_context("fork")
ASSESSED = ("features.safetensors", "results.json")
NOBODY = 65534  # the user without rights
PAGE = 0.2  # seconds after which a page may still be under way


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=120)
    parser.add_argument("--damages", type=int, default=400)
    parser.add_argument("--signals", type=int, default=20)
    parser.add_argument("--stops", type=int, default=24, help="kills and signals during the assessment and the report")
    parser.add_argument("--seed", type=int, default=0)
    choices = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        place, dice = Path(folder), random.Random(choices.seed)
        place.chmod(0o755)  # another user shall be able to look
        whole = undisturbed(place / "whole")
        campaign = (
            lambda: killed(whole, place, kills=choices.kills, dice=dice),
            lambda: damaged(whole, place / "damaged", trials=choices.damages, dice=dice),
            lambda: terminated(whole, place, signals=choices.signals, dice=dice),
            lambda: assessed(whole, place, stops=choices.stops, dice=dice),
            lambda: overwritten(whole, place),
            lambda: linked(whole, place),
            lambda: other_user(whole, place),
            lambda: full_disk(whole, place),
            lambda: killed_rank(place),
        )
        figures = []
        for attack in campaign:
            figures.append(attack())
            print(figures[-1], flush=True)
    sys.exit(not all(figure.survived for figure in figures))


class Figure(NamedTuple):
    """What an attack did, in a sentence, and whether every run survived it."""

    sentence: str
    survived: bool

    def __str__(self) -> str:
        return f"{'survived' if self.survived else 'FAILED'}: {self.sentence}"


def undisturbed(path: Path) -> Run:
    """A run from beginning to end."""
    train(path)
    return Run(path)


def killed(whole: Run, place: Path, *, kills: int, dice: random.Random) -> Figure:
    """Kill runs at random moments until enough kills are counted; every run is continued to its end."""
    began = time.monotonic()
    train(place / "timed")
    length = time.monotonic() - began
    where: Counter[str] = Counter()
    runs = equal = 0
    different: set[str] = set()
    while sum(where.values()) < kills:
        path = place / f"killed-{runs}"
        # One of four at any moment of the start; the others once steps are made, so that a busy machine is no refuge.
        while (
            phase := train_and_kill(path, after=dice.uniform(0, length / 2), begun=dice.random() < 0.75)
        ) is not None:
            where[phase] += 1
        runs += 1
        found = differences(Run(path), whole)
        equal, different = equal + (not found), different | found
        shutil.rmtree(path)
    shares = ", ".join(f"{where[phase]} while {phase}" for phase in PHASES[:3])
    sentence = f"{sum(where.values())} SIGKILLs over {runs} runs ({shares}): {equal} of {runs} endings bitwise equal"
    return Figure(sentence + (f"; others in {sorted(different)}" if different else ""), equal == runs)


def train_and_kill(path: Path, *, after: float, begun: bool = False) -> str | None:
    """The phase in which a training process was killed, or nothing if it came to its end before.

    The clock runs from its start or, for one that has ``begun``, from its first step.
    """
    phase = FORK.RawValue("i", 0)  # without a lock, which a killed process would keep
    process = FORK.Process(target=train, args=(path, CONFIG, phase))
    process.start()
    if begun:
        wait_for(lambda: phase.value > 0, process)
    process.join(after)
    if process.is_alive():
        os.kill(process.pid, signal.SIGKILL)
    process.join()
    if process.exitcode == 0:
        return None
    if process.exitcode != -signal.SIGKILL:
        raise SystemExit(f"A resumed process ended with status {process.exitcode}.")
    return PHASES[phase.value]


def train(path: Path, config: Config = CONFIG, phase: c_int | None = None) -> None:
    """Begin a run or continue it, telling in which phase it is."""
    torch.set_num_threads(1)
    if phase is not None:
        tell_phase(phase)
    parts = assembly.assemble(config)
    run = Run.create(path, parts.config, resume=True)
    with run.locked():
        stage.record(parts, run, leads=True, quiet=True)


def tell_phase(phase: c_int) -> None:
    """Make this process note in shared memory when it begins and ends a save."""
    save, advance = Run.save, stage.Progress.advance

    def saving(self: Run, *arguments: object, **options: object) -> Path:
        phase.value = PHASES.index("saving")
        path = save(self, *arguments, **options)  # type: ignore[arg-type]
        phase.value = PHASES.index("training")
        return path

    def advancing(self: stage.Progress, *arguments: object, **facts: object) -> None:
        phase.value = PHASES.index("training")
        advance(self, *arguments, **facts)  # type: ignore[arg-type]

    Run.save, stage.Progress.advance = saving, advancing  # type: ignore[method-assign]


def differences(run: Run, whole: Run) -> set[str]:
    """The log and the files of checkpoints that only one of two runs has, or that differ in a byte."""
    contents = [
        {str(path.relative_to(one.path)): path.read_bytes() for path in one.path.glob("checkpoints/*/*")}
        | {"log.jsonl": (one.path / "log.jsonl").read_bytes()}
        for one in (run, whole)
    ]
    return {name for name, _ in contents[0].items() ^ contents[1].items()}


def damaged(whole: Run, path: Path, *, trials: int, dice: random.Random) -> Figure:
    """Flip a bit of the newest checkpoint or cut a file short: loading must fall back to the one before."""
    seen: Counter[str] = Counter()
    done: Counter[str] = Counter()
    for _ in range(trials):
        shutil.copytree(whole.path, path)
        run = Run(path)
        before, newest = run.checkpoints()
        name = dice.choice([TENSORS, FACTS, MANIFEST])
        kind = dice.choice(["flipped bits", "truncations"])
        data = bytearray((newest / name).read_bytes())
        if kind == "flipped bits":
            data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
        else:
            data = data[: dice.randrange(len(data))]
        (newest / name).write_bytes(data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            seen[kind] += f"step-{run.load().step:09d}" == before.name  # type: ignore[union-attr]
        done[kind] += 1
        shutil.rmtree(path)
    sentence = ", ".join(f"{seen[kind]} of {done[kind]} {kind} detected" for kind in sorted(done))
    return Figure(sentence, seen == done)


def terminated(whole: Run, place: Path, *, signals: int, dice: random.Random) -> Figure:
    """Send SIGTERM or SIGUSR1 at random steps; count the steps until the checkpoint, and continue to the end."""
    steps: list[int] = []
    equal = 0
    for number in range(signals):
        path, last = place / f"signal-{number}", whole.load().step  # type: ignore[union-attr]
        heard = FORK.RawValue("i", 0)  # without a lock, which a killed process would keep
        process = FORK.Process(target=train_until_signal, args=(path, heard))
        process.start()
        wait_for_step(path, dice.randrange(1, last - 8))
        os.kill(process.pid, dice.choice([signal.SIGTERM, signal.SIGUSR1]))
        process.join()
        steps.append(Run(path).load().step - heard.value)  # type: ignore[union-attr]
        train(path)
        equal += not differences(Run(path), whole)
        shutil.rmtree(path)
    sentence = (
        f"{signals} SIGTERMs and SIGUSR1s: saved at most {max(steps)} step after the one that ended before the signal, "
        f"{equal} of {signals} endings bitwise equal"
    )
    return Figure(sentence, max(steps) <= 1 and equal == signals)


def train_until_signal(path: Path, heard: c_int) -> None:
    """Train, noting which step was the last to end before the signal came."""
    done = [0]
    advance, note = stage.Progress.advance, launch.Signals._note

    def advancing(self: stage.Progress, *arguments: object, **facts: object) -> None:
        advance(self, *arguments, **facts)  # type: ignore[arg-type]
        done[0] = self.done

    def noting(self: launch.Signals, *arguments: object) -> None:
        heard.value = done[0]
        note(self, *arguments)  # type: ignore[arg-type]

    stage.Progress.advance, launch.Signals._note = advancing, noting  # type: ignore[method-assign]
    try:
        train(path, replace(CONFIG, saving=replace(CONFIG.saving, every=1000)))
    except launch.Stopped:
        return
    raise SystemExit("The signal was not heard.")


def wait_for_step(path: Path, step: int) -> None:
    while len(Run(path).rows()) < step:
        time.sleep(0.001)


def command(*arguments: str, user: int = 0) -> tuple[int, str]:
    """Status and words of ``vergence ARGUMENTS`` in a process of its own, perhaps of another user."""
    process, said = commanded(*arguments, user=user)
    process.join()
    return process.exitcode, said()


def commanded(*arguments: str, user: int = 0, phase: c_int | None = None) -> tuple[Any, Callable[[], str]]:
    """``vergence ARGUMENTS`` under way, and a function that reads what it has said."""
    words = tempfile.TemporaryFile("w+")  # noqa: SIM115 - as long as the process

    def child() -> None:
        torch.set_num_threads(1)
        os.dup2(words.fileno(), 2)
        sys.stderr = os.fdopen(2, "w", buffering=1)
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        if phase is not None:
            tell_assessment(phase)
        if user:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
        os._exit(cli.main(list(arguments)))

    def said() -> str:
        words.seek(0)
        return words.read()

    process = FORK.Process(target=child)
    process.start()
    return process, said


def tell_assessment(phase: c_int) -> None:
    """Make this process note when it freezes and examines features, and when it writes the page."""
    freeze, page = stage.freeze, stage.pages.write

    def freezing(*arguments: object) -> None:
        phase.value = PHASES.index("assessing")
        freeze(*arguments)  # type: ignore[arg-type]

    def reporting(*arguments: object, **options: object) -> object:
        phase.value = PHASES.index("reporting")
        return page(*arguments, **options)  # type: ignore[arg-type]

    stage.freeze, stage.pages.write = freezing, reporting  # type: ignore[assignment]


def assessed(whole: Run, place: Path, *, stops: int, dice: random.Random) -> Figure:
    """Kill or signal trained runs while they are assessed and, every other one, while their page is written.

    ``--resume`` must finish them, with equal results and a page.
    """
    base = place / "assessed"
    shutil.copytree(whole.path, base)
    began = time.monotonic()
    status, words = command("train", "--run", str(base), "--resume", "--quiet")
    length = time.monotonic() - began
    if status:
        return Figure(f"the assessment of a trained run ended with status {status}: {words}", False)
    where: Counter[str] = Counter()
    right = equal = 0
    for number in range(stops):
        path, phase = place / f"assessed-{number}", FORK.RawValue("i", 0)
        shutil.copytree(whole.path, path)
        process, said = commanded("train", "--run", str(path), "--resume", "--quiet", phase=phase)
        target = PHASES[3 + number % 2]
        wait_for(lambda phase=phase, target=target: phase.value >= PHASES.index(target), process)
        process.join(dice.uniform(0, length if target == "assessing" else PAGE))
        how = dice.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGUSR1])
        if process.is_alive():
            os.kill(process.pid, how)
            where[PHASES[phase.value]] += 1
        process.join()
        expected = {-signal.SIGKILL} if how == signal.SIGKILL else {75}
        right += process.exitcode in expected | {0} and (process.exitcode != 75 or "is saved" in said())
        command("train", "--run", str(path), "--resume", "--quiet")
        same = all((path / name).read_bytes() == (base / name).read_bytes() for name in ASSESSED)
        equal += same and (path / "report.html").stat().st_size > 1000
        shutil.rmtree(path)
    shares = ", ".join(f"{where[phase]} while {phase}" for phase in PHASES[3:])
    sentence = (
        f"{where.total()} kills and signals ({shares}): {right} of {stops} ended as they should, {equal} of {stops}"
    )
    hit = where["reporting"] > 0 or stops < 4  # a campaign that never reached the page has not tried it
    return Figure(f"{sentence} resumed with equal results and a page", right == equal == stops and hit)


def overwritten(whole: Run, place: Path) -> Figure:
    """Overwrite a run that another process is training: it must be refused, and the run end as if nothing had been."""
    path = place / "victim"
    process = FORK.Process(target=train, args=(path,))
    process.start()
    wait_for_step(path, 3)
    status, words = command("train", "--data", "digits", "--run", str(path), "--overwrite", "--quiet", "--epochs", "1")
    process.join()
    equal = process.exitcode == 0 and not differences(Run(path), whole)
    refused = status == 2 and "Another process is using" in words
    sentence = f"overwriting a running run {'refused' if refused else f'NOT refused: {status} {words}'}"
    return Figure(f"{sentence}; its ending bitwise {'equal' if equal else 'different'}", refused and equal)


def linked(whole: Run, place: Path) -> Figure:
    """Overwrite a run whose checkpoints and log are symbolic links: the links go, what they point to stays."""
    path, kept = place / "linked", place / "elsewhere"
    shutil.copytree(whole.path, path)
    kept.mkdir()
    for name in ("checkpoints", "log.jsonl"):
        shutil.move(path / name, kept / name)
        (path / name).symlink_to(kept / name)
    parts = assembly.assemble(CONFIG)
    run = Run.create(path, parts.config, overwrite=True)
    empty = run.load() is None and not run.rows()
    train(path)
    safe = not differences(Run(kept), whole)
    equal = not differences(run, whole)
    sentence = (
        f"overwriting symbolic links: {'nothing' if empty else 'SOMETHING'} of the old run taken over, what they "
    )
    sentence += f"pointed to {'kept' if safe else 'LOST'}, ending bitwise {'equal' if equal else 'different'}"
    return Figure(sentence, empty and safe and equal)


def other_user(whole: Run, place: Path) -> Figure:
    """Another user resumes, overwrites and embeds: refused in a sentence, and not a byte changes."""
    if os.getuid():
        return Figure("two users: not tried, as changing to another needs root", True)
    path = place / "owned"
    shutil.copytree(whole.path, path)
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    attempts = {
        "resume": ("train", "--run", str(path), "--resume", "--quiet"),
        "overwrite": ("train", "--data", "digits", "--run", str(path), "--overwrite", "--quiet"),
        "embed": ("embed", str(path)),
        "a new run beside it": ("train", "--data", "digits", "--run", str(place / "mine"), "--quiet"),
    }
    refused = {}
    for name, arguments in attempts.items():
        status, words = command(*arguments, user=NOBODY)
        refused[name] = status == 2 and "ermission" in words and "Traceback" not in words
    after = {file: file.read_bytes() for file in path.rglob("*") if file.is_file() and file.name != ".lock"}
    same = {file: raw for file, raw in before.items() if file.name != ".lock"} == after
    failed = [name for name, right in refused.items() if not right]
    sentence = f"another user's {', '.join(refused)}: {'all refused' if not failed else f'NOT refused: {failed}'}"
    return Figure(f"{sentence}, {'not a byte' if same else 'SOMETHING'} changed", not failed and same)


def wait_for(condition: Callable[[], bool], process: Any) -> None:
    while process.is_alive() and not condition():
        time.sleep(0.005)


def full_disk(whole: Run, place: Path) -> Figure:
    """Train on a disk that fills up, make room, and continue."""
    if os.getuid():
        return Figure("disk full: not tried, as mounting a small disk needs root", True)
    with Disk(place / "disk", megabytes=4) as disk:
        path = disk.path / "run"
        failures = 0
        for free in (20_000, 80_000, 150_000):
            disk.leave(free)
            error = attempt(lambda: train(path))
            failures += error is not None and "No space" in error
        disk.leave(None)
        train(path)
        equal = not differences(Run(path), whole)
    sentence = (
        f"disk full {failures} times of 3, continued each time: ending bitwise {'equal' if equal else 'different'}"
    )
    return Figure(sentence, failures == 3 and equal)


class Disk:
    """A small disk in memory, which can be filled to leave just so many bytes; it needs the right to mount."""

    def __init__(self, path: Path, *, megabytes: int):
        self.path, self.megabytes = path, megabytes

    def __enter__(self) -> "Disk":
        self.path.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={self.megabytes}m", "none", str(self.path)], check=True)
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run(["umount", "-l", str(self.path)], check=True)

    def leave(self, free: int | None) -> None:
        """Fill all but ``free`` bytes; with ``None`` empty the ballast."""
        ballast = self.path / "ballast"
        ballast.unlink(missing_ok=True)
        if free is not None:
            ballast.write_bytes(bytes(max(0, shutil.disk_usage(self.path).free - free)))


def attempt(work: Callable[[], None]) -> str | None:
    """The error that a piece of work ends with in a process of its own; nothing when it succeeds."""
    receiver, sender = FORK.Pipe(duplex=False)

    def child() -> None:
        try:
            work()
            sender.send(None)
        except Exception as error:
            sender.send(str(error))

    process = FORK.Process(target=child)
    process.start()
    if not receiver.poll(300):
        process.kill()
        return "HUNG"
    process.join()
    return receiver.recv()


def killed_rank(place: Path) -> Figure:
    """Kill one of two processes under torchrun, which starts them again; compare with an undisturbed pair."""
    whole, run = together(place / "pair"), together(place / "pair-killed", kill=True)
    equal = not differences(run, whole)
    sentence = "one of two processes killed and restarted by torchrun: ending bitwise " + (
        "equal" if equal else "different"
    )
    return Figure(sentence, equal)


def together(path: Path, *, kill: bool = False) -> Run:
    """A run of two processes, one of which may be killed after a few steps."""
    config = replace(CONFIG, epochs=30, track=())
    path.parent.mkdir(parents=True, exist_ok=True)
    settings = path.with_suffix(".yaml")
    config.write(settings)
    command = [sys.executable, "-m", "vergence", "train", "--config", str(settings), "--run", str(path)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen([*command, "--devices", "2", "--quiet"], env=environment, stdout=subprocess.DEVNULL)
    if kill:
        wait_for_step(path, 40)
        os.kill(worker(path), signal.SIGKILL)
    if process.wait():
        raise SystemExit(f"torchrun ended with status {process.returncode}.")
    return Run(path)


def worker(path: Path) -> int:
    """The process number of a worker of the run: of those that name it, one that torchrun started last."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().decode().split("\0")
        except OSError:
            continue
        if str(path) in words and "--resume" in words and "torch.distributed.run" not in words:
            found.append(int(entry.name))
    return max(found)


if __name__ == "__main__":
    main()

"""Progress for a person: a bar on a terminal, a plain line now and then elsewhere, nothing when quiet."""

import math
import sys
import time
from types import TracebackType
from typing import Any

PERIOD = 10.0  # seconds between plain lines
ESTIMATED = 5  # steps after which the rest is estimated, by those behind the first, before which much is prepared


class Progress:
    """A context that is told about steps; it prints to standard error and never to standard output.

    ``unit`` names what there is a ``total`` of, and ``then`` what follows.
    """

    def __init__(self, total: int, *, start: int = 0, quiet: bool = False, then: str = "", unit: str = "step"):
        self.total, self.start, self.done, self.quiet, self.then, self.unit = total, start, start, quiet, then, unit
        self._began = time.monotonic()
        self._printed = 0.0
        self._samples = 0
        self._first = 0.0
        self._bar: Any = None
        self._named = ""

    def __enter__(self) -> "Progress":
        if not self.quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            columns = [BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeRemainingColumn()]
            self._bar = Bar(*columns, console=Console(stderr=True))
            self._bar.start()
            self._task = self._bar.add_task("", total=self.total, completed=self.start)
        return self

    def __exit__(self, kind: type | None, value: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._began

    def say(self, text: str) -> None:
        """What is being done now: beside the bar, or as a line."""
        if self._bar is not None:
            self._bar.update(self._task, description=text)
        elif not self.quiet:
            print(text, file=sys.stderr, flush=True)

    def _print(self, text: str) -> None:
        """A line that stays, above the bar where there is one."""
        if self._bar is not None:
            self._bar.console.print(text, highlight=False)
        else:
            print(text, file=sys.stderr, flush=True)

    def advance(self, samples: int = 0, **facts: float) -> None:
        """One more step; of the ``samples`` that it used the speed is shown, and the ``facts`` beside it."""
        self.done += 1
        self._samples += samples
        seconds = self.seconds
        words = [f"{name} {value:.4g}" for name, value in facts.items() if not math.isnan(value)]
        words += [f"{self._samples / max(1e-9, seconds):,.0f} samples/s"] * bool(self._samples)
        if self.done - self.start == 1:
            self._first = seconds
        if self.done - self.start == ESTIMATED and not self.quiet and self.total - self.done > ESTIMATED:
            left = (seconds - self._first) / (ESTIMATED - 1) * (self.total - self.done)
            self._print(f"About {duration(left)} are left{self.then and f'; {self.then} follows'}.")
        if self._bar is not None:
            self._bar.update(self._task, completed=self.done, description=" · ".join(words))
        elif not self.quiet and (seconds - self._printed > PERIOD or self.done == self.total):
            self._printed = seconds
            left = seconds / (self.done - self.start) * (self.total - self.done)
            words = [f"{self.unit} {self.done}/{self.total}", *words, f"{left:.0f} s left"]
            print(" · ".join(words), file=sys.stderr, flush=True)

    def reach(self, done: int, total: int, samples: int) -> None:
        """``done`` of ``total`` steps are done, with so many samples in all."""
        self.done, self.total = done, total
        speed = f"{samples / max(1e-9, self.seconds):,.0f} samples/s"
        if self._bar is not None:
            self._bar.update(self._task, completed=done, total=total, description=speed)
        elif not self.quiet and self.seconds - self._printed > PERIOD:
            self._printed = self.seconds
            print(f"{100 * done / max(1, total):.0f} % · {speed}", file=sys.stderr, flush=True)


class After(Progress):
    """What follows training, part by part: each is named when it begins, so that no minute passes in silence."""

    def __enter__(self) -> "After":
        super().__enter__()
        return self

    def begin(self, text: str) -> None:
        """Another part begins."""
        self.done = min(self.done + 1, self.total)
        self._named = text
        if self._bar is not None:
            self._bar.update(self._task, completed=self.done - 1, description=text)
        elif not self.quiet:
            print(f"after training, {self.done} of {self.total}: {text}", file=sys.stderr, flush=True)

    def part(self, done: int, total: int) -> None:
        """How far the part that goes on is."""
        share = done / max(1, total)
        if self._bar is not None:
            words = f"{self._named}, {100 * share:.0f} %"
            self._bar.update(self._task, completed=self.done - 1 + share, description=words)
        elif not self.quiet and self.seconds - self._printed > PERIOD:
            self._printed = self.seconds
            print(f"  {self._named}: {100 * share:.0f} %", file=sys.stderr, flush=True)


def duration(seconds: float) -> str:
    """A time as a person says it."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"

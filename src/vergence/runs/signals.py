"""Requests to stop: SIGTERM, SIGUSR1 (a scheduler's warning) and Ctrl-C. This module does not import torch."""

import signal
import threading
from collections.abc import Callable
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)


class Stopped(KeyboardInterrupt):
    """A signal asked for an end; its sentence says what is saved. No ``except Exception`` takes it for a failure."""


class Signals:
    """Notices a request to stop.

    A ``patient`` one notes it, so that the loop can end between two steps; the second Ctrl-C ends at once. One that is
    not patient ends at once, with the sentence that ``saying`` gives: files appear whole or not at all, so nothing is
    lost between two checkpoints but time.
    """

    def __init__(self, *, patient: bool = True, saying: Callable[[], str] = lambda: "Stopped."):
        self.patient, self.saying = patient, saying
        self.received: int | None = None

    def __enter__(self) -> "Signals":
        self._before = {}
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def anywhere(self) -> bool:
        """Whether any process was asked to stop: all of them must stop after the same step."""
        import torch

        from vergence.learning.collectives import gather

        flag = torch.tensor([self.received is not None])
        return bool(gather(flag).any())

    def _note(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and (self.received == signal.SIGINT or not self.patient):
            raise KeyboardInterrupt
        self.received = number
        if not self.patient:
            raise Stopped(self.saying())

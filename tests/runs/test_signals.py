"""A request to stop: noted between steps, obeyed at once elsewhere, and never taken for a failure."""

import os
import signal

import pytest

from vergence.runs.signals import Signals, Stopped


def test_a_patient_one_notes_the_signal():
    with Signals(patient=True) as signals:
        os.kill(os.getpid(), signal.SIGTERM)
        assert signals.received == signal.SIGTERM


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_another_ends_at_once_with_what_is_saved(number):
    with pytest.raises(Stopped, match="Step 3 is saved"), Signals(patient=False, saying=lambda: "Step 3 is saved"):
        os.kill(os.getpid(), number)


def test_no_except_clause_takes_a_stop_for_a_failure():
    assert not issubclass(Stopped, Exception)


def test_the_handlers_from_before_come_back():
    before = signal.getsignal(signal.SIGTERM)
    with Signals(patient=False), Signals(patient=True):
        pass
    assert signal.getsignal(signal.SIGTERM) is before

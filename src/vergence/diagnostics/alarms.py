"""Alarms: which verdicts and faults a caller wants to fail on."""

from collections.abc import Iterable

from vergence.diagnostics.faults import FAULTS
from vergence.tables import UnknownName

VERDICTS = ("collapse", "collapsed", "faulty", "impossible", "not started", "too few rows", "cannot tell", "healthy")


def check_alarms(fail_on: str) -> None:
    """Refuse the name of a verdict or fault that does not exist: a gate that never fires is no gate."""
    known = {*VERDICTS, *FAULTS, "learning", "near the floor", "chance", "unknown"}
    if fail_on and not _words(fail_on):
        raise ValueError(f"--fail-on {fail_on!r} names no verdict or fault: it would never fail.")
    for word in _words(fail_on):
        if not any(word in name for name in known):
            raise UnknownName("verdict or fault in --fail-on", word, known)


def _words(fail_on: str) -> set[str]:
    return {word.strip() for word in fail_on.split(",") if word.strip()}


def alarmed(said: Iterable[str], fail_on: str) -> bool:
    """Whether the verdict or a fault is one that the caller named; ``collapse`` stands for all its kinds."""
    return any(word in fault for word in _words(fail_on) for fault in said)

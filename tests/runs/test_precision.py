"""A precision that the processor lists but forbids is replaced before it kills the process."""

import pytest
import torch

from vergence.config import Config
from vergence.runs import precision

KILLED = "import os, signal; os.kill(os.getpid(), signal.SIGILL)"
CPU = torch.device("cpu")


def test_a_forbidden_instruction_falls_back_to_float32_with_a_sentence(monkeypatch):
    monkeypatch.setattr(precision, "lists_amx", lambda: True)
    monkeypatch.setattr(precision, "TRIAL", KILLED)
    with pytest.warns(UserWarning, match="lists AMX"):
        assert precision.usable(Config(precision="bfloat16"), CPU).precision == "float32"


def test_nothing_is_tried_where_nothing_is_asked_for(monkeypatch):
    monkeypatch.setattr(precision, "survives", lambda program: pytest.fail("tried"))
    monkeypatch.setattr(precision, "lists_amx", lambda: True)
    assert precision.usable(Config(), CPU).precision == "auto"
    monkeypatch.setattr(precision, "lists_amx", lambda: False)
    assert precision.usable(Config(precision="bfloat16"), CPU).precision == "bfloat16"


def test_a_program_that_ends_well_survives():
    assert precision.survives("pass")
    assert not precision.survives(KILLED)

"""A few draws of the sweep over ways to store embeddings: benchmarks/foreign/siblings.py."""

import sys
from pathlib import Path

import pytest

FOREIGN = Path(__file__).parents[2] / "benchmarks" / "foreign"


@pytest.mark.parametrize("number", [2, 3, 4, 5, 12, 13, 14, 15, 24, 25, 26, 27])
def test_healthy_embeddings_pass_and_broken_ones_are_named_however_they_are_stored(number, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(FOREIGN), *sys.path])
    import siblings

    case = siblings.drawn(number, seed=0)
    assert siblings.judged(case) is None, case.name

"""A part of the fuzzing campaign: nothing that is read ends in anything but rows or a sentence."""

import sys
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from vergence.config import Config, from_mapping

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
import fuzz

PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
TREES = st.recursive(PLAIN, lambda tree: st.lists(tree, max_size=3) | st.dictionaries(st.text(max_size=8), tree))
KEYS = st.sampled_from([*vars(Config()), "nothing"])
OPTIONS = st.dictionaries(st.sampled_from(["temperature", "momentum", "queue", "hidden", "every", "name"]), TREES)


@pytest.mark.parametrize("family", fuzz.FAMILIES, ids=lambda family: family.name)
def test_a_mutated_input_is_accepted_or_refused(family):
    inputs = 150 if family.share > 20 else 25  # commands take longer than files
    counts = fuzz.campaign(family, inputs, seed=7)
    assert counts["accepted"] + counts["refused"] == counts.total() == inputs
    assert counts["accepted"] > 2  # the mutations are not so coarse that nothing passes


@settings(max_examples=300, deadline=None, database=None)
@given(st.dictionaries(KEYS, TREES | OPTIONS, max_size=3))
@example({"objective": {"name": ()}})
def test_settings_of_any_shape_are_accepted_or_refused(values):
    said = ""
    try:
        assert from_mapping(values).batch >= 2
    except ValueError as error:
        said = str(error)
    assert len(said) < 2000

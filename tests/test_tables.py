"""What the tables say without being imported is what the code says."""

import importlib
import inspect
import subprocess
import sys

import pytest

from vergence import tables

ROOMS = {
    "objectives": "OBJECTIVES",
    "learners": "LEARNERS",
    "encoders": "ENCODERS",
    "views": "VIEWS",
    "data": "DATASETS",
}


@pytest.mark.parametrize("room", ROOMS)
def test_names_read_from_source_are_the_names_of_the_table(room):
    table = getattr(importlib.import_module(f"vergence.{room}"), ROOMS[room])
    assert tables.names(room) == list(table)


@pytest.mark.parametrize("room", ROOMS)
def test_parameters_read_from_source_are_those_of_the_function(room):
    table = getattr(importlib.import_module(f"vergence.{room}"), ROOMS[room])
    for name, function in table.items():
        declared = {key: value.default for key, value in tables.keywords(room, name).items()}
        signature = inspect.signature(function).parameters.values()
        assert declared == {item.name: item.default for item in signature if item.default is not item.empty}


@pytest.mark.parametrize("room", ROOMS)
def test_every_row_has_a_sentence(room):
    for name in tables.names(room):
        assert len(tables.summary(room, name)) > 10


@pytest.mark.parametrize("room", ["objectives", "learners", "encoders", "views"])
def test_every_option_has_a_meaning(room):
    glossary = tables.glossary(room)
    for name in tables.names(room):
        for option in tables.keywords(room, name):
            assert option in glossary or option == "negatives", f"{room}: {name} {option}"


def test_an_unknown_name_is_explained():
    with pytest.raises(ValueError, match=r"Unknown encoder 'convnett'. Known: .*Did you mean 'convnet'"):
        tables.summary("encoders", "convnett")


@pytest.mark.parametrize("arguments", [["--help"], ["list"], ["train", "--help"], ["doctor", "--help"]])
def test_help_does_not_import_torch(arguments):
    program = (
        "import sys\nfrom vergence.cli import main\n"
        f"try: main({arguments!r})\nexcept SystemExit: pass\n"
        "print('TORCH' if 'torch' in sys.modules else 'NONE', file=sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert result.stderr.strip().endswith("NONE"), result.stderr

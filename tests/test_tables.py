"""What the tables say without being imported is what the code says."""

import json
import subprocess
import sys

import pytest

from vergence import tables

TABLES = sorted(tables.TABLES)


def test_the_schema_is_what_the_code_says():
    assert tables.live_schema() == json.loads(tables.SCHEMA.read_text()), "out of date: python -m vergence.tables"


@pytest.mark.parametrize("room", TABLES)
def test_every_row_has_a_sentence(room):
    for name in tables.names(room):
        assert len(tables.summary(room, name)) > 10 or room == "methods"


@pytest.mark.parametrize("room", ["objectives", "learners", "encoders", "views", "stages"])
def test_every_option_has_a_meaning(room):
    for name in tables.names(room):
        for option, parameter in tables.keywords(room, name).items():
            assert parameter.meaning or option in (*tables.FROM_LEARNER, "settings"), f"{room}: {name} {option}"


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

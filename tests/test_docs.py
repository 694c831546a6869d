"""The documents are true: their Python runs, their links lead somewhere, every page has a place on the site."""

import importlib
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from vergence.cli import main
from vergence.config import given
from vergence.methods import METHODS
from vergence.runs import assembly

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if "generated" not in path.parts)
TUTORIALS = [path for path in PAGES if path.parent.name == "tutorials" and path.name != "index.md"]
HEAVY = ("concentration", "graph", "information")  # trials, eigenvectors and estimates of a minute or so
CODED = [path for path in PAGES if path not in TUTORIALS and "```python" in path.read_text(encoding="utf-8")]
PARTS = ("loops",)  # pieces of programs of other libraries, which tests of the integrations run whole
HOW_TO = [path for path in CODED if path.parent != DOCS or path.stem not in (*HEAVY, *PARTS)]
STAND_IN = "sys.modules['IPython.display'] = types.SimpleNamespace(HTML=str)"


def program(path: Path) -> str:
    """All Python of a page, in order; what only a notebook understands is left out."""
    blocks = re.findall(r"```(?:\{code-cell\} ipython3|python)\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)
    lines = "\n".join(blocks).splitlines()
    kept = [line for line in lines if not line.startswith(("%", ":tags:"))]
    return "\n".join(["import sys, types", STAND_IN, *kept])


def run(path: Path, folder: Path) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", program(path)]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)
    assert ended.returncode == 0, ended.stderr[-3000:]


@pytest.mark.parametrize("path", HOW_TO, ids=lambda path: path.stem)
def test_the_python_of_a_page_runs(path, tmp_path):
    run(path, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", [*TUTORIALS, *(path for path in CODED if path.stem in HEAVY)], ids=lambda path: path.stem
)
def test_a_long_page_runs(path, tmp_path):
    run(path, tmp_path)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(DOCS).as_posix())
def test_every_link_to_a_file_leads_somewhere(path):
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
        if not target.startswith(("http", "mailto", "/")) and "generated/" not in target:
            assert (path.parent / target).exists(), target


def test_every_page_has_a_place():
    listed = set()
    for path in PAGES:
        for block in re.findall(r"```\{toctree\}\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL):
            names = [line.strip() for line in block.splitlines() if line.strip() and not line.startswith(":")]
            listed |= {(path.parent / f"{name}.md").resolve() for name in names}
    unlisted = {path.resolve() for path in PAGES} - listed - {DOCS / "index.md"}
    assert not unlisted, f"Name these in the toctree of an index.md: {sorted(path.name for path in unlisted)}"


@pytest.fixture
def pages(monkeypatch):
    """The module that writes the generated pages."""
    monkeypatch.syspath_prepend(str(DOCS))
    return importlib.import_module("pages")


@pytest.mark.parametrize("name", [name for name, row in METHODS.items() if row.trains])
def test_the_page_of_a_method_is_whole_and_its_doctor_runs(pages, name, capsys):
    text = pages.method(name, METHODS[name])
    assert "Not measured" not in text
    formula = text.split("## Formula")[1].split("## Defaults")[0]
    assert "$" in formula
    assert "<svg" in text
    assert all(f"## {part}" in text for part in ("Defaults", "Thermometer", "Measured", "How it fails", "Start"))
    for command in re.findall(r"^vergence (doctor .*)$", text, re.MULTILINE):
        assert main(shlex.split(command)) == 0
        assert "0.50 of the way" in capsys.readouterr().out  # the loss on the page is halfway from chance to floor


@pytest.mark.parametrize("name", [name for name in METHODS if name not in ("clip", "simcse", "quick_thought")])
def test_a_method_takes_the_data_of_its_page(pages, name):
    found = re.search(r"vergence train --data (\S+)", pages.method(name, METHODS[name]))
    assert found is not None
    data = found[1] if found[1] == "digits" else torch.randint(0, 256, (40, 3, 32, 32), dtype=torch.uint8).numpy()
    assert assembly.assemble(given(None, data=data, method=name, limit=300)).learner is not None


def test_every_verb_has_a_tutorial():
    from vergence.stages import STAGES

    text = "".join(path.read_text(encoding="utf-8") for path in TUTORIALS)
    for verb in STAGES:
        assert f"vergence {verb}" in text, verb


def test_a_ladder_is_told_as_a_table_of_averages_over_seeds(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    generate = importlib.import_module("generate")
    seeds = {"moco": {"crop": [0.25, 0.75], "+ blur": [0.5]}}
    figures = generate.averaged({"knn": seeds, "center": seeds, "other": 1})
    first, _, row = generate.by_rung(figures)[1:4]
    assert first == "| kNN accuracy | crop | + blur |"
    assert row == "| moco | 0.500 | 0.500 |"
    assert generate.by_rung(generate.averaged({"accuracy": 1.0})) == []

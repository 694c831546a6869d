"""The documents are true: their Python runs, their links lead somewhere, every page has a place on the site."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

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


def test_every_verb_has_a_tutorial():
    from vergence.stages import STAGES

    text = "".join(path.read_text(encoding="utf-8") for path in TUTORIALS)
    for verb in STAGES:
        assert f"vergence {verb}" in text, verb

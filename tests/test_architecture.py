"""Which way imports may point: the rooms are a one-way street."""

import ast
from itertools import pairwise
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "vergence"

# Each room may import the rooms before it in its line, and what is named for it below.
SPINE = ["types", "objectives", "methods", "learners", "training", "pipeline", "cli"]
MATHEMATICS = {"objectives", "diagnostics", "theory", "information"}
FREE_OF_TORCH = {"cli", "config", "methods", "tables", "run", "progress"}
VAGUE = {"utils", "util", "helpers", "helper", "common", "base", "core", "misc", "manager"}


def imports(path: Path, *, top_level: bool = False) -> set[str]:
    """The modules a file imports; with ``top_level`` only those loaded when it is imported."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = tree.body if top_level else ast.walk(tree)
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def rooms(path: Path, **options: bool) -> set[str]:
    """The rooms of ours that a file imports from."""
    return {name.split(".")[1] for name in imports(path, **options) if name.startswith("vergence.")}


def files(room: str) -> list[Path]:
    return sorted((SOURCE / room).rglob("*.py")) if (SOURCE / room).is_dir() else [SOURCE / f"{room}.py"]


@pytest.mark.parametrize(("earlier", "later"), list(pairwise(SPINE)))
def test_the_spine_points_one_way(earlier, later):
    forbidden = set(SPINE[SPINE.index(later) :])
    for path in files(earlier):
        assert not rooms(path) & forbidden, path


@pytest.mark.parametrize("room", sorted(MATHEMATICS))
def test_mathematics_imports_only_itself(room):
    for path in files(room):
        assert rooms(path) <= MATHEMATICS | {"types", "tables"}, path


def test_nothing_imports_the_claims_but_the_command_line():
    for path in SOURCE.rglob("*.py"):
        if "claims" not in path.parts and path.name not in ("cli.py", "pipeline.py"):
            assert "claims" not in rooms(path), path


@pytest.mark.parametrize("room", sorted(FREE_OF_TORCH))
def test_help_starts_without_torch(room):
    for path in files(room):
        loaded = imports(path, top_level=True)
        assert not {name for name in loaded if name.split(".")[0] == "torch"}, path
        assert rooms(path, top_level=True) <= FREE_OF_TORCH, path


def test_collectives_are_spoken_in_one_file():
    for path in SOURCE.rglob("*.py"):
        if path.name != "distributed.py":
            text = path.read_text(encoding="utf-8")
            assert "all_gather" not in text, path
            assert "all_reduce" not in text, path


def test_every_name_says_what_is_inside():
    assert not {path.stem for path in SOURCE.rglob("*.py")} & VAGUE


def test_no_pickle_is_read():
    for path in SOURCE.rglob("*.py"):
        assert not imports(path) & {"pickle", "dill", "joblib", "cloudpickle"}, path
        for call in [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]:
            options = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
            assert options.get("allow_pickle") != "True", path
            if ast.unparse(call.func) == "torch.load":
                assert options.get("weights_only") == "True", path

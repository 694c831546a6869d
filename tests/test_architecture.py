"""Which way imports may point: the rooms are a one-way street."""

import ast
import importlib
import types
from itertools import pairwise
from pathlib import Path

import pytest

from vergence.stages import STAGES

SOURCE = Path(__file__).parents[1] / "src" / "vergence"

# The rooms in the order in which data flow through them; each may import those before it, and what SHARED names.
SPINE = ["types", "objectives", "methods", "learning", "runs", "stages", "cli"]
SHARED = {"types", "tables", "counters"}
MATHEMATICS = {"objectives", "diagnostics", "theory", "information"}
ROOMS = {
    "data", "views", "encoders", "objectives", "learning", "evaluation", "diagnostics", "theory", "information",
    "claims", "report", "integrations", "runs", "stages",
}  # fmt: skip
MODULES = {"__init__", "__main__", "cli", "config", "counters", "features", "methods", "tables", "types", "values"}
FREE_OF_TORCH = [
    "cli", "config", "methods", "tables", "values", "stages/__init__", "stages/list", "runs/run", "runs/progress",
    "runs/results", "runs/signals",
]  # fmt: skip
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
        assert rooms(path) <= MATHEMATICS | SHARED, path


def test_the_tree_has_the_rooms_it_is_said_to_have():
    assert {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()} == ROOMS
    assert {path.stem for path in SOURCE.glob("*.py")} == MODULES
    assert len(MODULES) <= 10


def test_tests_lie_in_the_same_folders():
    folders = {path.name for path in Path(__file__).parent.iterdir() if list(path.glob("test_*.py"))}
    assert folders == ROOMS


def test_a_verb_is_a_file_with_one_public_function():
    verbs = {path.stem: path for path in (SOURCE / "stages").glob("*.py") if path.stem != "__init__"}
    assert verbs.keys() == STAGES.keys()
    for verb, place in STAGES.items():
        assert place == f"vergence.stages.{verb}:{verb}"


def test_nothing_imports_the_stages_but_the_command_line_and_other_stages():
    for path in SOURCE.rglob("*.py"):
        if "stages" not in path.parts and path.name not in ("cli.py", "__init__.py"):
            assert "stages" not in rooms(path), path


def test_nothing_imports_the_claims_but_their_stage():
    for path in SOURCE.rglob("*.py"):
        if "claims" not in path.parts and path.relative_to(SOURCE).as_posix() != "stages/reproduce.py":
            assert "claims" not in rooms(path) or path == SOURCE / "__init__.py", path


@pytest.mark.parametrize("module", FREE_OF_TORCH)
def test_help_starts_without_torch(module):
    loaded = imports(SOURCE / f"{module}.py", top_level=True)
    assert not {name for name in loaded if name.split(".")[0] == "torch"}, module
    ours = {name.removeprefix("vergence.").replace(".", "/") for name in loaded if name.startswith("vergence.")}
    known = {*FREE_OF_TORCH, "stages", "runs"}
    assert {name for name in ours if (SOURCE / f"{name}.py").exists() or (SOURCE / name).is_dir()} <= known


def test_collectives_are_spoken_in_one_file():
    for path in SOURCE.rglob("*.py"):
        if path.name != "collectives.py":
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


@pytest.mark.parametrize("room", sorted(ROOMS))
def test_no_file_has_the_name_of_something_that_its_room_offers_from_elsewhere(room):
    """Importing ``diagnostics/alignment.py`` would put a module in the place of ``diagnostics.alignment``."""
    front = importlib.import_module(f"vergence.{room}")
    files = {path.stem for path in (SOURCE / room).glob("*.py")} & set(getattr(front, "__all__", ()))
    offered = {name: getattr(front, name) for name in files}
    homes = {name: getattr(each, "__module__", "").rpartition(".")[2] for name, each in offered.items()}
    assert all(homes[name] == name or isinstance(offered[name], types.ModuleType) for name in files), homes

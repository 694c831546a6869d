"""The page of measured methods is written by benchmarks/methods.py, which loses no row that it did not measure."""

import importlib.util
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "methods.py"
spec = importlib.util.spec_from_file_location("methods_benchmark", SCRIPT)
methods = importlib.util.module_from_spec(spec)
spec.loader.exec_module(methods)


def row(method, seed, knn):
    return {"data": "cifar10", "epochs": 4, "method": method, "seed": seed, "knn": knn, "probe": 0.5, "minutes": 1.0}


def test_the_page_is_what_publishing_nothing_gives():
    inside = methods.PAGE.read_text().partition("<!-- measured -->\n")[2].partition("<!-- /measured -->")[0]
    tables = methods.merged(methods.read(inside), {})
    lines = (line for place in tables.items() for line in methods.section(*place, draw=False))
    assert "\n".join(lines) + "\n\n" == inside


def test_a_row_measured_with_fewer_seeds_leaves_the_old_one_and_a_new_one_finds_its_place():
    old = methods.tabled([row("simclr", seed, 0.4) for seed in range(3)])
    new = methods.tabled([row("simclr", 0, 0.1), row("dino", 0, 0.5)])
    (lines,) = methods.merged(old, new).values()
    assert list(lines) == ["dino", "simclr"]
    assert lines["simclr"]["knn"] == "0.400 ± 0.000"
    (again,) = methods.merged(old, methods.tabled([row("simclr", seed, 0.1) for seed in range(3)])).values()
    assert again["simclr"]["knn"] == "0.100 ± 0.000"


def test_a_changed_row_is_named_after_its_change():
    assert methods.named("simclr", {"views": "multi_crop", "optim": {"learning_rate": 0.01}}) == (
        "simclr, views multi_crop, optim.learning_rate 0.01"
    )

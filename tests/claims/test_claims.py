"""Every exact and Monte Carlo claim of the sources holds, and every erratum is refuted."""

import importlib
import json
from pkgutil import iter_modules

import pytest

from vergence.claims import CLAIMS, SOURCES, Claim, Laboratory, Outcome
from vergence.claims.reproduction import chosen, findings, found
from vergence.cli import main
from vergence.stages.reproduce import reproduce

QUICK = [number for number, row in CLAIMS.items() if row.kind != "training"]


@pytest.fixture
def laboratory(tmp_path):
    return Laboratory(tmp_path, "smallest")


@pytest.mark.parametrize("number", QUICK)
def test_the_claim_gets_the_verdict_the_theory_expects(number, laboratory):
    finding = found(CLAIMS[number], laboratory)
    assert finding.expected, f"{finding.sentence} {finding.verdict}: {finding.measured}"


def test_every_claim_is_a_sentence_of_a_source_and_numbered_once():
    for number, row in CLAIMS.items():
        assert row.sentence.endswith("."), row.sentence
        assert row.source in SOURCES
        assert number == str(row.number)


def test_every_claim_that_is_written_is_in_the_list_of_its_source():
    for source in SOURCES:
        folder = importlib.import_module(f"vergence.claims.{source}")
        modules = [
            importlib.import_module(f"{folder.__name__}.{found.name}") for found in iter_modules(folder.__path__)
        ]
        written = {row.number for module in modules for row in vars(module).values() if isinstance(row, Claim)}
        assert written == {row.number for row in folder.CLAIMS}
        assert len(written) == len(folder.CLAIMS)


def made(number: int, holds: bool, **fields) -> Claim:
    return Claim(number, "A sentence.", lambda: Outcome(holds, "seen"), "huang", **fields)


@pytest.mark.parametrize(
    ("holds", "false", "verdict"),
    [(True, False, "confirmed"), (False, False, "contradicted"), (False, True, "refuted"), (True, True, "confirmed")],
)
def test_a_verdict_follows_from_what_was_seen(holds, false, verdict, laboratory):
    finding = found(made(1, holds, false=false), laboratory)
    assert finding.verdict == verdict
    assert finding.expected == (holds != false)


def test_claims_are_chosen_by_number_and_by_source():
    rows = {"1": made(1, True), "2": made(2, True, kind="training")}
    assert [row.number for row in chosen(rows, [], training=False)] == [1]
    assert [row.number for row in chosen(rows, ["2"], training=False)] == [2]
    assert [row.number for row in chosen(rows, ["huang"], training=True)] == [1, 2]
    with pytest.raises(ValueError, match="Unknown claim or source 'hunag'"):
        chosen(rows, ["hunag"], training=False)


def test_what_was_found_is_not_run_again_by_the_same_code(laboratory):
    calls = []
    row = Claim(1, "A sentence.", lambda: calls.append(1) or Outcome(True, "seen"), "huang")
    for _ in range(2):
        assert [finding.verdict for finding in findings([row], laboratory)] == ["confirmed"]
    assert len(calls) == 1
    path = laboratory.folder / "findings" / "1.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "version": "another"}))
    list(findings([row], laboratory))
    assert len(calls) == 2


def test_a_trial_is_trained_once_and_again_by_other_code(laboratory, monkeypatch):
    said = []
    laboratory.say = said.append
    first = laboratory.trial(method="simclr", epochs=1)
    assert laboratory.trial(method="simclr", epochs=1) == first
    assert 0.1 < first["knn"] <= 1
    assert len(said) == 1
    monkeypatch.setattr("vergence.claims.laboratory.learning_version", lambda: "another")
    laboratory.trial(method="simclr", epochs=1)
    assert len(said) == 2
    laboratory.any_version = True
    laboratory.trial(method="simclr", epochs=1)
    assert len(said) == 2


def test_a_trial_is_named_by_what_sets_it_apart(laboratory):
    config = laboratory.config(method="moco", view={"blur": False}, epochs=3, seed=7)
    assert laboratory.told_apart(config.settings()) == "moco, epochs 3, view.blur False, seed 7"
    assert laboratory.told_apart({"method": "nwj", "nats": 4, "seed": 0}) == "nwj, nats 4, seed 0"


def test_a_training_claim_runs_end_to_end(tmp_path, capsys):
    """At the smallest scale nothing is learned, so the verdict is free; the numbers, picture and page are not."""
    main(["reproduce", "224", "--scale", "smallest", "--run", str(tmp_path), "--json"])
    (finding,) = json.loads(capsys.readouterr().out)["claims"]
    assert finding["kind"] == "training"
    assert finding["seeds"] == 2
    assert finding["minutes"] > 0
    picture = (tmp_path / "pictures" / finding["pictures"][0]).read_text()
    assert "<svg" in picture
    page = (tmp_path / "claims.html").read_text()
    assert finding["measured"] in page
    assert page.count("<svg") == len(finding["pictures"])


@pytest.mark.parametrize("budget", [0.0, -1.0, float("nan")])
def test_a_budget_of_no_time_is_refused(budget, tmp_path):
    with pytest.raises(ValueError, match="more than 0"):
        reproduce(("1",), budget=budget, run=tmp_path, quiet=True)

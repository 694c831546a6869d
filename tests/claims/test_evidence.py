"""Verdicts by statistics: Student's posterior, the power of a design, decisions that err as rarely as they say."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from vergence.claims import CLAIMS, Claim, Laboratory, Outcome
from vergence.claims.evidence import ERROR, Contrast, by_subject, contrast, decision, in_words, pooled
from vergence.claims.laboratory import LOOKS, SCALES
from vergence.claims.reproduction import CheckedClaim, found, upgraded


def test_the_chance_of_an_order_is_that_of_students_test():
    values = (0.02, 0.05, -0.01, 0.03)
    theirs = stats.ttest_1samp(values, 0.01, alternative="greater").pvalue
    assert Contrast("", values, margin=0.01).chance == pytest.approx(1 - theirs, abs=1e-12)


def test_the_power_is_the_share_of_repetitions_that_confirm():
    """With the spread known only from each repetition, as the design has it."""
    generator = np.random.default_rng(0)
    n, effect, spread = 4, 0.03, 0.02
    repeated = generator.normal(effect, spread, size=(4000, n))
    confirmed = np.mean([Contrast("", tuple(row)).chance >= 0.95 for row in repeated])
    # The same spread in every repetition: three numbers around the effect.
    scale = spread / np.std([-1.5, -0.5, 0.5, 1.5], ddof=1)
    design = Contrast("", tuple(effect + scale * x for x in (-1.5, -0.5, 0.5, 1.5)), reported=effect)
    assert design.power() == pytest.approx(confirmed, abs=0.03)


def test_without_a_difference_of_the_source_or_a_second_seed_there_is_no_power():
    assert Contrast("", (0.1, 0.2)).power() is None
    assert Contrast("", (0.1,), reported=0.1).power() is None
    assert Contrast("", (0.1,)).chance == 0.5


def test_a_wrong_decision_is_as_rare_as_it_should_be():
    """Of two settings that are the same, no more than 5 % of the repetitions say that one is ahead, or behind."""
    generator = np.random.default_rng(1)
    said = [decision([Contrast("", tuple(generator.normal(size=3)))]) for _ in range(2000)]
    assert said.count("confirmed") / 2000 < 0.065
    assert said.count("contradicted") / 2000 < 0.065


def test_contrasts_of_one_unit_share_their_spread_and_err_no_more_often():
    """Of settings that are the same, no more than 5 % of contrasts with two seeds say that one is ahead."""
    generator, said = np.random.default_rng(3), []
    for _ in range(150):
        cells = generator.normal(size=(9, 2))
        rows = [Contrast("", tuple(after - before), unit="accuracy") for before, after in pairwise(cells)]
        said += [each.chance >= 0.95 for each in pooled(rows)]
    assert np.mean(said) < 0.065
    alone = Contrast("", (0.1, 0.2))
    assert pooled([alone, Contrast("", (0.1, 0.3))]) == [alone, Contrast("", (0.1, 0.3))]


def test_a_known_spread_makes_the_posterior_normal():
    known = Contrast("", (0.2,), spread=0.1, freedom=float("inf"), reported=0.2)
    assert known.chance == pytest.approx(stats.norm.cdf(2))
    assert known.power() == pytest.approx(stats.norm.cdf(2 - stats.norm.ppf(0.95)))


def test_a_look_has_no_more_seeds_than_the_budget_pays_for(tmp_path):
    laboratory = Laboratory(tmp_path, "medium", budget=10.0)
    laboratory.begin(2)
    laboratory.minutes = 6.0
    assert laboratory.affordable(4) == 3
    laboratory.minutes = 2.0
    assert laboratory.affordable(4) == 4


def test_all_contrasts_confirm_and_one_contradicts():
    yes, no, open_ = (
        Contrast("a", (1.0, 1.1, 0.9)),
        Contrast("b", (-1.0, -1.01, -0.99)),
        Contrast("c", (1.0, -1.0, 0.1)),
    )
    assert decision([yes, yes]) == "confirmed"
    assert decision([yes, open_]) == "undecided"
    assert decision([yes, no, open_]) == "contradicted"
    assert decision([]) == "undecided"


def test_a_claim_about_several_methods_says_for_which_it_holds():
    rows = [
        contrast("up", [1.0, 1.1, 1.2], [0.0, 0.1, 0.25], about="simclr"),
        contrast("up", [0.0, 0.1, 0.25], [1.0, 1.1, 1.2], about="moco"),
    ]
    assert by_subject(rows) == {"simclr": "confirmed", "moco": "contradicted"}
    assert in_words(rows).startswith("confirmed for simclr; contradicted for moco; least sure: up, -0.983")


def with_noise(effect, spread=1.0):
    """A training claim whose difference is ``effect`` with noise, and the seeds it was looked at with."""
    looked = []

    def check(laboratory):
        looked.append(len(laboratory.seeds))
        values = [effect + spread * float(np.random.default_rng(seed).normal()) for seed in laboratory.seeds]
        return Outcome(effect > 0, "seen", contrasts=[Contrast("up", tuple(values))])

    return Claim(1, "A sentence.", check, "huang", kind="training"), looked


@pytest.mark.parametrize(
    ("effect", "spread", "verdict", "looks"),
    [(10.0, 0.5, "confirmed", [2]), (-10.0, 0.5, "contradicted", [2]), (0.1, 1.0, "undecided", [16])],
)
def test_seeds_are_added_until_the_claim_is_decided(effect, spread, verdict, looks, tmp_path):
    row, looked = with_noise(effect, spread)
    finding = found(row, Laboratory(tmp_path, "medium"))
    assert finding.verdict == verdict
    assert looked[-1] == looks[-1]
    assert looked == [2, 4, 8, 16][: len(looked)]
    assert finding.seeds == looks[-1]
    assert finding.evidence[0]["n"] == looks[-1]


def test_looking_four_times_errs_no_more_often_than_is_accepted():
    values = np.random.default_rng(2).normal(size=(200_000, max(LOOKS)))
    wrong = np.zeros(len(values), bool)
    for n, share in LOOKS.items():
        seen = values[:, :n]
        wrong |= stats.t.sf(seen.mean(1) / (seen.std(1, ddof=1) / n**0.5), n - 1) <= share
    assert wrong.mean() == pytest.approx(ERROR, abs=4 * (ERROR / len(values)) ** 0.5)


def test_a_claim_that_takes_too_long_is_undecided_and_says_why(tmp_path):
    def check(laboratory):
        for seed in laboratory.seeds:
            laboratory.remember("slow", {"seed": seed}, lambda: {"value": 1.0})
            laboratory.minutes += 61
        return Outcome(True, "seen", contrasts=[Contrast("up", (1.0, -1.0, 0.5))])

    finding = found(Claim(1, "A sentence.", check, "huang", kind="training"), Laboratory(tmp_path, "medium"))
    assert finding.verdict == "undecided"
    assert "minutes of one core are spent, before 2 seeds" in finding.why
    assert len(list((tmp_path / "trials").glob("*.json"))) == 1


@pytest.mark.parametrize(("kind", "verdict"), [("training", "undecided"), ("exact", "contradicted")])
def test_findings_of_earlier_versions_get_the_new_words(kind, verdict):
    old = dict.fromkeys(("sentence", "source", "tolerance", "measured"), "")
    old |= {"number": 1, "kind": kind, "verdict": "not confirmed", "expected": False, "seconds": 1.0}
    finding = CheckedClaim(**upgraded(old))
    assert finding.verdict == verdict
    assert finding.evidence == ()


def test_the_medium_scale_takes_five_times_the_steps_of_the_small_one():
    small, medium = SCALES["small"], SCALES["medium"]
    steps = [budget.samples // budget.batch * budget.epochs for budget in (small, medium)]
    assert 5 <= steps[1] / steps[0] <= 20
    assert not medium.paper


def test_a_killed_reproduction_goes_on_where_it_was(tmp_path):
    """A real process, killed after its first trial; the second one trains the others only."""
    command = [sys.executable, "-m", "vergence", "reproduce", "224", "--scale", "smallest", "--run", str(tmp_path)]
    trials = tmp_path / "trials"
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(1200):
        if trials.exists() and list(trials.glob("*.json")):
            break
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    before = {path.name: path.stat().st_mtime_ns for path in trials.glob("*.json")}
    assert 0 < len(before) < 6
    subprocess.run([*command, "--json"], capture_output=True, check=False)
    after = {path.name: path.stat().st_mtime_ns for path in trials.glob("*.json")}
    assert len(after) == 6
    assert all(after[name] == stamp for name, stamp in before.items())
    (finding,) = (json.loads(path.read_text())["finding"] for path in (tmp_path / "findings").glob("*.json"))
    assert finding["seeds"] == 2


class Invented(Laboratory):
    """A laboratory whose trials are numbers of the settings: what a claim makes of them is tested, not the training."""

    def remember(self, name, settings, make):
        generator = np.random.default_rng(list(json.dumps([name, settings], sort_keys=True, default=str).encode()))
        numbers = {
            key: float(generator.uniform(0.2, 0.6))
            for key in ("probe", "knn", "center", "accuracy", "bound", "inverse")
        }
        rows = [{"step": step, **numbers, "accuracy": 0.1 * step + numbers["accuracy"] / 1e3} for step in range(5)]
        return {**numbers, "minutes": 0.0, "rows": rows, "layers": [numbers["accuracy"]] * 4}


def test_a_claim_of_four_methods_decides_each_of_them(tmp_path):
    finding = found(CLAIMS["42"], Invented(tmp_path, "smallest"))
    assert set(finding.holds_for) == {"simclr", "barlow_twins", "moco", "simsiam"}
    assert len(finding.evidence) == 16


def test_the_power_beside_a_claim_is_for_the_difference_of_the_source(tmp_path):
    finding = found(CLAIMS["224"], Invented(tmp_path, "smallest"))
    assert [row["reported"] for row in finding.evidence] == pytest.approx([0.0493, 0.0112])
    assert all(0 < row["power"] < 1 for row in finding.evidence)


def test_an_encoder_that_is_not_inverted_decides_nothing_however_clear_the_rise(tmp_path):
    finding = found(CLAIMS["65"], Invented(tmp_path, "smallest"))
    assert finding.evidence[0]["chance"] > 0.99
    assert finding.verdict == "undecided"
    assert "not inverted" in finding.why


def test_the_detectable_difference_is_the_one_that_the_design_confirms_as_often_as_asked():
    spread, n, margin = 0.02, 12, 0.01
    truth = Contrast("", (0.0,) * n, margin=margin, spread=spread, freedom=math.inf).detectable(power=0.8)
    means = np.random.default_rng(3).normal(truth, spread / math.sqrt(n), 40_000)
    confirmed = means > margin + stats.norm.ppf(0.95) * spread / math.sqrt(n)
    assert confirmed.mean() == pytest.approx(0.8, abs=0.01)
    assert Contrast("", (1.0,)).detectable() is None

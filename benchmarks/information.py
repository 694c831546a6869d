"""Mutual information against what is known: ``python benchmarks/information.py STAGE [--seeds 21 22]``.

Stages: ``bmi`` the 40 tasks of the BMI benchmark at n = 10,000; ``ladder`` Gaussians of 1 to 20 nats; ``stairs`` the
figure of Song & Ermon; ``entropies`` the table of McAllester & Stratos; ``ksg`` time against bmi's own. Every row is
kept in ``runs/information`` as it is made, so a run that was stopped goes on. BMI needs its own environment::

    python -m venv .venv-bmi && .venv-bmi/bin/pip install benchmark-mi jax==0.4.30 jaxlib==0.4.30
"""

import argparse
import json
import math
import subprocess
import time
from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vergence.information import estimate, staircase
from vergence.information.exact import correlated_information
from vergence.information.neighbors import ksg
from vergence.information.samplers import correlated_gaussians, cubed_gaussians
from vergence.report.colours import ACCENT, CONTRAST, INK, LINE, QUIET

ROWS = Path("runs/information")
PAIRS = 10_000
SAMPLE = """
import sys, numpy, bmi
for name, task in bmi.benchmark.BENCHMARK_TASKS.items():
    for seed in map(int, sys.argv[2:]):
        x, y = task.sample({pairs}, seed)
        numpy.savez(f"{{sys.argv[1]}}/{{name}}__{{seed}}.npz", x=x, y=y, nats=task.mutual_information)
"""
KSG = """
import sys, time, numpy, bmi
for path in sys.argv[1:]:
    data = numpy.load(path)
    start = time.process_time()
    value = bmi.estimators.KSGEnsembleFirstEstimator(neighborhoods=(5,)).estimate(data["x"], data["y"])
    print(value, time.process_time() - start)
"""
# Table 1 of McAllester & Stratos (2020), d = 128, batches of 128: DV, CPC and DoE, the best of 100 runs by the truth.
PUBLISHED = {0.25: (2.72, 2.73, 4.19), 0.5: (10.27, 4.82, 18.38), 0.9: (61.96, 4.85, 104.18)}
STAIRS = (2.0, 4.0, 6.0, 8.0, 10.0)
# A quarter of the steps that Song & Ermon take on each stair.
STEPS = 1000
CLIMBERS = {
    "InfoNCE": ("info_nce", {}), "NWJ": ("nwj", {}), "Donsker-Varadhan": ("donsker_varadhan", {}), "MINE": ("mine", {}),
    "SMILE, clip 1": ("smile", {"clip": 1.0}), "SMILE, clip 5": ("smile", {"clip": 5.0}),
    "interpolated": ("interpolated", {}), "entropies": ("entropies", {}),
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", nargs="?", default="ladder", choices=["bmi", "ladder", "stairs", "entropies", "ksg"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[24, 25, 26, 27, 28])
    parser.add_argument("--bmi-python", default=".venv-bmi/bin/python")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    ROWS.mkdir(parents=True, exist_ok=True)
    stages = {"ladder": ladder, "stairs": stairs, "entropies": entropies}
    if arguments.stage in stages:
        stages[arguments.stage]()
    else:
        {"bmi": bmi, "ksg": neighbor_time}[arguments.stage](arguments.bmi_python, arguments.seeds)


def bmi(python: str, seeds: list[int]) -> None:
    """The 40 tasks, chosen automatically, with no setting of any of them."""
    samples = _samples(python, seeds)
    rows = [_kept(f"bmi/{path.stem}", lambda path=path: _estimated(**_loaded(path))) for path in samples]
    for path, row in zip(samples, rows, strict=True):
        print(f"{path.stem:52} {_line(row)}")
    _summary(rows)


def ladder() -> None:
    """High information: within 5 % up to 8 nats, and every error above half a nat flagged."""
    rows = []
    for d in (20, 128):
        for name, draw in (("gaussian", correlated_gaussians), ("cubed", cubed_gaussians)):
            for nats in (1.0, 2.0, 4.0, 6.0, 8.0, 12.0, 16.0, 20.0):
                pairs = draw(PAIRS, d=d, nats=nats, seed=17)
                key = f"ladder/{name}-{d}-{nats:g}"
                rows.append(_kept(key, lambda pairs=pairs: _estimated(pairs.x, pairs.y, pairs.nats)))
                print(f"{key:28} {_line(rows[-1])}")
    low = [abs(row["nats"] / row["truth"] - 1) for row in rows if row["truth"] <= 8]
    large = [row for row in rows if abs(row["nats"] - row["truth"]) > 0.5]
    small = [row for row in rows if abs(row["nats"] - row["truth"]) <= 0.5]
    print(
        f"largest relative error up to 8 nats {max(low):.3f}; errors above 0.5: {len(large)}, flagged {_flagged(large)}"
    )
    print(f"false flags {_flagged(small)} of {len(small)}")


def stairs() -> None:
    """d = 20, batches of 64: every estimator on Gaussians and on their cubes, and ours on 10,000 pairs."""
    climbs = {
        (name, cubed): _kept(f"stairs/{name}-{cubed}", lambda b=bound, o=options, c=cubed: _climb(b, cubed=c, **o))
        for name, (bound, options) in CLIMBERS.items()
        for cubed in (False, True)
    }
    answers = {cubed: [_answer(nats, cubed) for nats in STAIRS] for cubed in (False, True)}
    for cubed in (False, True):
        print(f"{'cubed' if cubed else 'Gaussian':20}" + "".join(f"{nats:>14g}" for nats in STAIRS))
        for (name, _), rows in ((key, rows) for key, rows in climbs.items() if key[1] == cubed):
            print(f"{name:20}" + "".join(f"{row['nats']:8.2f} ± {row['deviation']:<3.1f}" for row in rows))
        print(f"{'auto':20}" + "".join(f"{row['nats']:8.2f}      " for row in answers[cubed]))
    _drawn(climbs, answers).savefig(ROWS / "stairs.png", dpi=110)


def entropies() -> None:
    """The table of McAllester & Stratos, d = 128: theirs, ours on their batches, and ours on 10,000 pairs."""
    names = ("donsker_varadhan", "info_nce", "entropies")
    print("  rho    truth | theirs: DV, CPC, DoE    | ours on batches           | ours on 10,000: entropies, auto")
    for rho, published in PUBLISHED.items():
        nats = correlated_information(rho, d=128)
        options = {"stairs": (nats,), "steps": 3000, "d": 128, "batch": 128}
        climbed = [_kept(f"entropies/batches-{n}-{rho}", lambda n=n, o=options: _climb(n, **o))[0] for n in names]
        pairs = correlated_gaussians(PAIRS, d=128, nats=nats, seed=19)
        whole = [_kept(f"entropies/{n}-{rho}", lambda n=n, p=pairs: _bounded(p, n)) for n in ("entropies", "auto")]
        parts = published, [row["nats"] for row in climbed], [row["nats"] for row in whole]
        print(f"{rho:5} {nats:8.2f} | " + " | ".join(" ".join(f"{value:7.2f}" for value in part) for part in parts))


def neighbor_time(python: str, seeds: list[int]) -> None:
    """KSG with k = 5 on standardized columns: our answer and CPU seconds beside bmi's, interleaved."""
    for path in [path for path in _samples(python, seeds[:1]) if path.stem.split("__")[0] in KSG_TASKS]:
        theirs, seconds = map(
            float, subprocess.run([python, "-c", KSG, path], capture_output=True, text=True).stdout.split()
        )
        data = _loaded(path)
        x, y = ((rows - rows.mean(0)) / rows.std(0) for rows in (data["x"], data["y"]))
        start = time.process_time()
        ours = ksg(x, y, k=5)
        spent = time.process_time() - start
        print(f"{path.stem:45} bmi {theirs:.4f} in {seconds:6.2f} s, ours {ours:.4f} in {spent:5.2f} s")
        print(f"{'':45} {seconds / spent:.1f} times as fast")


KSG_TASKS = ("1v1-normal-0.75", "multinormal-dense-3-3-0.5", "multinormal-dense-25-25-0.5")


def _samples(python: str, seeds: list[int]) -> list[Path]:
    folder = ROWS / "samples"
    folder.mkdir(exist_ok=True)
    missing = [seed for seed in seeds if len(list(folder.glob(f"*__{seed}.npz"))) < 40]
    if missing:
        subprocess.run([python, "-c", SAMPLE.format(pairs=PAIRS), str(folder), *map(str, missing)], check=True)
    return [path for seed in seeds for path in sorted(folder.glob(f"*__{seed}.npz"))]


def _loaded(path: Path) -> dict:
    data = np.load(path)
    return {"x": data["x"].astype(float), "y": data["y"].astype(float), "truth": float(data["nats"])}


def _estimated(x, y, truth: float, **options) -> dict:
    start = time.process_time()
    found = estimate(x, y, **options)
    return {
        "truth": truth, "nats": found.nats, "low": found.interval[0], "high": found.interval[1],
        "estimator": found.estimator, "saturated": found.saturated, "trust": found.trust.word,
        "seconds": time.process_time() - start,
    }  # fmt: skip


def _bounded(pairs, bound: str) -> dict:
    return _estimated(pairs.x, pairs.y, pairs.nats, bound=bound, batch=64)


def _climb(bound: str, *, stairs=STAIRS, steps: int = STEPS, **options) -> list[dict]:
    """What a bound settles at on each stair, and its path in bins of a twentieth of the stair."""
    rows = []
    for stair in staircase(bound, stairs=stairs, steps=steps, seed=18, **options):
        bins = stair.values.reshape(20, -1)
        path = {"path": bins.mean(1).tolist(), "spread": bins.std(1).tolist()}
        rows.append({"truth": stair.nats, "nats": stair.mean, "deviation": stair.deviation, **path})
    return rows


def _answer(nats: float, cubed: bool) -> dict:
    pairs = (cubed_gaussians if cubed else correlated_gaussians)(PAIRS, d=20, nats=nats, seed=18)
    return _kept(f"stairs/auto-{cubed}-{nats:g}", lambda: _bounded(pairs, "auto"))


def _drawn(climbs: dict, answers: dict) -> Figure:
    figure = Figure(figsize=(9, 7.5), layout="constrained")
    panels = figure.subplots(3, 3, sharex=True, sharey=True).flat
    for axes, name in zip(panels, [*CLIMBERS, "auto, from 10,000 pairs"], strict=True):
        _panel(axes, name)
        for cubed, colour in ((False, ACCENT), (True, CONTRAST)):
            rows = climbs.get((name, cubed))
            if rows is None:
                middle = np.arange(len(STAIRS)) + 0.5
                axes.plot(middle, [row["nats"] for row in answers[cubed]], "os"[cubed], color=colour, alpha=0.8)
                continue
            path, spread = (np.concatenate([row[key] for row in rows]) for key in ("path", "spread"))
            steps = (np.arange(len(path)) + 0.5) / len(path) * len(STAIRS)
            axes.plot(steps, path, color=colour, label="y cubed" if cubed else "Gaussian")
            axes.fill_between(steps, path - spread, path + spread, color=colour, alpha=0.2, linewidth=0)
    figure.axes[0].legend(frameon=False, fontsize=9, loc="upper left")
    figure.supxlabel(f"thousands of steps: a stair is {STEPS}", color=QUIET)
    figure.supylabel("nats", color=QUIET)
    return figure


def _panel(axes: Axes, name: str) -> None:
    axes.set(title=name, ylim=(-0.5, 13), xlim=(0, len(STAIRS)))
    axes.stairs(STAIRS, range(len(STAIRS) + 1), color=INK, linewidth=1, baseline=None)
    axes.axhline(math.log(64), color=QUIET, linestyle=":", linewidth=1)
    axes.set_xticks(range(len(STAIRS) + 1), [f"{i * STEPS / 1000:g}" for i in range(len(STAIRS) + 1)])
    axes.grid(color=LINE, linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)


def _kept(key: str, make):
    """The row of this key, made now or found from an earlier run."""
    path = ROWS / f"{key}.json"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(make()))
    return json.loads(path.read_text())


def _line(row: dict) -> str:
    covered = "covered" if row["low"] <= row["truth"] <= row["high"] else "MISSED "
    return (
        f"truth {row['truth']:7.3f} said {row['nats']:7.3f} ({row['nats'] - row['truth']:+.3f}) "
        f"[{row['low']:.3f}, {row['high']:.3f}] {covered} {row['estimator']} {row['trust']} {row['seconds']:.1f} s"
    )


def _flagged(rows: list[dict]) -> int:
    return sum(row["saturated"] or row["trust"] in ("low", "none") for row in rows)


def _summary(rows: list[dict]) -> None:
    errors = np.array([abs(row["nats"] - row["truth"]) for row in rows])
    valid = np.mean([row["low"] <= row["truth"] for row in rows])
    covered = np.mean([row["low"] <= row["truth"] <= row["high"] for row in rows])
    gap = np.median([row["truth"] - row["low"] for row in rows])
    seconds = [row["seconds"] for row in rows]
    print(
        f"{len(rows)} runs: mean absolute error {errors.mean():.4f}, within 0.1: {(errors <= 0.1).sum()} of {len(rows)}"
    )
    print(f"lower bound valid in {valid:.1%}, median gap {gap:.3f}; interval covers {covered:.1%}")
    print(f"CPU seconds: median {np.median(seconds):.1f}, largest {max(seconds):.1f}")


if __name__ == "__main__":
    main()

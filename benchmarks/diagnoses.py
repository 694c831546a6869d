"""What the diagnostics of stable-pretraining, lightly and reptrix say of the cases that the doctor is tried on.

    pip install stable-pretraining==0.1.8 reptrix==0.1.0 lightly==1.6.0     in an environment that has vergence
    python benchmarks/diagnoses.py --seed 2                                 a minute and a half on one core

Their own code is run: functions of lightly and reptrix, callbacks of stable-pretraining with the rows put where its
queue would hold them. They print numbers without verdicts. So that the comparison is in their favor, a number counts
as an alarm when it lies outside the range of the healthy runs of the same seed, which a user would not have.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from learning_cases import FAULTS, HEALTHY
from learning_runs import Case
from peers import declare_operators
from vergence.diagnostics import effective_rank_variants

declare_operators()

from lightly.utils.debug import std_of_l2_normalized  # noqa: E402
from reptrix.alpha import get_alpha  # noqa: E402
from reptrix.lidar import get_lidar  # noqa: E402
from reptrix.rankme import get_rankme  # noqa: E402
from stable_pretraining.callbacks import LiDAR, RankMe  # noqa: E402

SOUND = ("simclr", "moco", "byol", "simsiam", "barlow_twins", "vicreg")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=2)
    seed = parser.parse_args().seed
    torch.set_num_threads(1)
    healthy = {name: HEALTHY["digits"][name](seed) for name in SOUND}
    faulty = {name: make(seed) for name, (make, _) in FAULTS["digits"].items()}
    print(*table({f"healthy {name}": case for name, case in healthy.items()}, faulty), sep="\n")
    print(*reconciled(healthy["simclr"]), sep="\n")


def said(case: Case) -> dict[str, float]:
    """Every number that the three libraries have for embeddings without labels."""
    n, d = case.z1.shape
    pairs = torch.stack([case.z1, case.z2], dim=1)
    queue = {"target": "rows", "queue_length": 2 * n, "target_shape": d, "verbose": False}
    discriminants = LiDAR("said", n_classes=n, samples_per_class=2, **queue)
    numbers: dict[str, Callable[[], Any]] = {
        "lightly std": lambda: std_of_l2_normalized(case.z1) * d**0.5,
        "stable-pretraining RankMe": lambda: logged(RankMe("said", **queue), case.h),
        "stable-pretraining LiDAR": lambda: logged(discriminants, pairs.flatten(0, 1)),
        "reptrix RankMe": lambda: get_rankme(case.h),
        "reptrix alpha": lambda: get_alpha(case.h)[0],
        "reptrix LiDAR": lambda: get_lidar(pairs, n, 2),
    }
    return {name: _or_nan(number) for name, number in numbers.items()}


def logged(callback: Any, rows: torch.Tensor) -> float:
    """What a callback of stable-pretraining logs when its queue holds these rows."""
    log: dict[str, float] = {}
    callback._target_queue = SimpleNamespace(data=rows)
    module = SimpleNamespace(log=lambda name, value, **options: log.update({name: float(value)}))
    callback.on_validation_batch_end(SimpleNamespace(global_rank=0), module, {}, {}, 0)
    return log["said"]


def table(healthy: Mapping[str, Case], faulty: Mapping[str, Case]) -> Iterator[str]:
    """A line for each case; numbers outside the range of the healthy ones are in bold."""
    numbers = {name: said(case) for name, case in (healthy | faulty).items()}
    columns = list(next(iter(numbers.values())))
    ranges = {key: _range([numbers[name][key] for name in healthy]) for key in columns}
    yield f"| case | {' | '.join(columns)} | vergence |"
    yield "|---|" + "---:|" * len(columns) + "---|"
    for name, row in numbers.items():
        cells = [_cell(row[key], *ranges[key]) for key in columns]
        verdict = ", ".join((healthy | faulty)[name].examined().faults) or "no fault"
        yield f"| {name} | {' | '.join(cells)} | {verdict} |"
    outside = {key: sum(not _inside(numbers[name][key], *ranges[key]) for name in faulty) for key in columns}
    yield f"| outside, of {len(faulty)} | {' | '.join(map(str, outside.values()))} | |"


def reconciled(case: Case) -> Iterator[str]:
    """Numbers printed as RankMe, beside our variant of the same formula."""
    ours, theirs = effective_rank_variants(case.h), said(case)
    yield ""
    for name, value in ours.items():
        library = next((library for library in ("stable-pretraining", "reptrix") if library in name), None)
        yield f"{name}: {value:.4f}" + (f", {library} prints {theirs[f'{library} RankMe']:.4f}" if library else "")


def _or_nan(number: Callable[[], Any]) -> float:
    """Collapsed rows, or fewer than a hundred, make some of these formulas fail, which is an answer too."""
    try:
        return float(number())
    except (ValueError, IndexError, RuntimeError, np.linalg.LinAlgError):
        return float("nan")


def _range(values: list[float]) -> tuple[float, float]:
    return float(np.nanmin(values)), float(np.nanmax(values))


def _inside(value: float, low: float, high: float) -> bool:
    return low <= value <= high


def _cell(value: float, low: float, high: float) -> str:
    return f"{value:.2f}" if _inside(value, low, high) else f"**{value:.2f}**"


if __name__ == "__main__":
    main()

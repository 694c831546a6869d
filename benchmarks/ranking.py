"""Does concentration before training predict the error after it? Train with many augmentation sets, and correlate.

    VERGENCE_DATA=... python benchmarks/ranking.py train rows.jsonl      # minutes per set; continues where it stopped
    VERGENCE_DATA=... python benchmarks/ranking.py correlate rows.jsonl  # ranks the same sets, prints Spearman's rho

A row is one training: a small convnet on 2,560 images of CIFAR-10 for 15 epochs, then the error of the nearest-centre
classifier on 2,000 test images. Rows in the file are not trained again.
"""

import argparse
import itertools
import json
import time
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from scipy.stats import spearmanr
from torch import Tensor, nn

from vergence import data, encoders, evaluation
from vergence.objectives import barlow_twins, nt_xent
from vergence.ranking import rank_views
from vergence.views import Recipe, from_letters, sample_keys

LETTERS = ("ab", "ac", "ad", "ae", "be", "cd", "de", "abc", "abcd", "abcde")
STRENGTHS = (1.0, 0.25, 0.125)  # of colour distortion beside the crop; 0.5 is the plain "ad"
OBJECTIVES = {"simclr": lambda z1, z2: nt_xent(z1, z2, temperature=0.2), "barlow_twins": barlow_twins}
CHANNELS, IMAGES, EPOCHS, BATCH, RATE = (16, 32, 64), 2560, 15, 256, 2e-3  # about 16 seconds of one core a training


def augmentation_sets() -> dict[str, Recipe]:
    """The sets compared: pairs, the ladder, and crop with weaker and stronger colour distortion."""
    sets = {letters: from_letters(letters) for letters in LETTERS}
    return sets | {f"ad x {strength:g}": from_letters("ad", strength=strength) for strength in STRENGTHS}


def trained(recipe: Recipe, images: Tensor, method: str, seed: int) -> nn.Sequential:
    """A small convnet and its projector, trained with one set of views."""
    torch.manual_seed(seed)
    encoder = encoders.build("convnet", tuple(images.shape[1:]), channels=CHANNELS)
    encoder = encoder.to(memory_format=torch.channels_last)
    projector = encoders.mlp([encoder.width, 128, 128])
    learner = nn.Sequential(encoder, projector)
    optimiser = torch.optim.AdamW(learner.parameters(), lr=RATE)
    steps = EPOCHS * (len(images) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=steps, pct_start=0.1)
    for epoch in range(EPOCHS):
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(1000 * seed + epoch))
        for indices in order[: len(images) // BATCH * BATCH].split(BATCH):
            views = recipe(images[indices], sample_keys(seed, epoch, indices))
            loss = OBJECTIVES[method](*[learner(view) for view in views])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
    return learner.eval()


@torch.no_grad()
def errors(learner: nn.Sequential, recipe: Recipe, train: data.Samples, test: data.Samples) -> dict[str, float]:
    """Errors on test images: of the nearest class centre among embeddings z, which the theory is about, and among
    representations h as they are and standardised; of nearest neighbours among representations."""
    h = [torch.cat([learner[0](recipe.plain(x)) for x in part.x.split(500)]) for part in (train, test)]
    scaled = [(part - h[0].mean(0)) / h[0].std(0).clamp_min(1e-6) for part in h]
    results = {}
    for name, (one, other) in {"z": [learner[1](part) for part in h], "h": h, "scaled_h": scaled}.items():
        parts = (one, train.labels, other, test.labels)
        results[f"centre_{name}"] = 1 - evaluation.nearest_centre(*parts).accuracy
        results[f"knn_{name}"] = 1 - evaluation.knn(*parts, k=20).accuracy
    return results


def train(path: Path, methods: list[str], seeds: int, start: str) -> None:
    """Append a row for every set (whose name begins with ``start``), method and seed that the file lacks."""
    samples, test = data.load("cifar10", limit=IMAGES), data.load("cifar10", split="test", limit=10_000)
    done = {(row["set"], row["method"], row["seed"]) for row in rows(path)}
    sets = {name: recipe for name, recipe in augmentation_sets().items() if name.startswith(start)}
    for seed, method, (name, recipe) in itertools.product(range(seeds), methods, sets.items()):
        if (name, method, seed) in done:
            continue
        began = time.process_time()
        learner = trained(recipe, samples.x, method, seed)
        row = {"set": name, "method": method, "seed": seed, **errors(learner, recipe, samples, test)}
        with path.open("a") as file:
            print(json.dumps({**row, "cpu_seconds": time.process_time() - began}), file=file)


def rows(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def correlate(path: Path, measure: str, resamples: int) -> None:
    """Rank correlation of 1 - sigma before training with the error after it, with a bootstrap interval over sets."""
    sets = augmentation_sets()
    ranking = rank_views(data.load("cifar10", limit=500), sets, resamples=resamples)
    print(ranking.table())
    scores = {row.name: row.score for row in ranking.sets}
    for method in OBJECTIVES:
        for label, start in (("all sets", ""), ("sets with crop", "a")):
            found = mean_errors(path, method, measure, start)
            points = [(scores[name], error) for name, error in found.items()]
            if len(points) >= 5:
                value, low, high = spearman(points)
                print(
                    f"{method:<13} {label:<15} {len(points):>3}  {measure}  rho {value:5.2f}  [{low:5.2f}, {high:5.2f}]"
                )
    scatter(path, scores, measure).savefig(path.with_suffix(".png"), dpi=150)


def mean_errors(path: Path, method: str, measure: str, start: str = "") -> dict[str, float]:
    """The error after training with each set that has rows, over seeds."""
    found: dict[str, list[float]] = {}
    for row in rows(path):
        if row["method"] == method and row["set"].startswith(start):
            found.setdefault(row["set"], []).append(row[measure])
    return {name: sum(errors) / len(errors) for name, errors in found.items()}


def spearman(points: list[tuple[float, float]], draws: int = 2000) -> tuple[float, float, float]:
    """Spearman's rho, and a 95 % interval over resampled sets."""
    values, rng = np.array(points), np.random.default_rng(0)
    resampled = [spearmanr(*values[rng.integers(len(values), size=len(values))].T)[0] for _ in range(draws)]
    return spearmanr(*values.T)[0], *np.nanpercentile(resampled, (2.5, 97.5))


def scatter(path: Path, scores: dict[str, float], measure: str) -> Figure:
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for method in OBJECTIVES:
        found = mean_errors(path, method, measure)
        axes.scatter([scores[name] for name in found], list(found.values()), label=method)
        for name, error in found.items():
            axes.annotate(name, (scores[name], error), fontsize=6)
    axes.set(xlabel="1 - sigma before training", ylabel=f"{measure} error after training")
    axes.legend(frameon=False)
    return figure


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", nargs="?", choices=["train", "correlate"], help="nothing: only say this")
    parser.add_argument("rows", nargs="?", type=Path, default=Path("ranking_rows.jsonl"))
    parser.add_argument("--methods", nargs="+", default=list(OBJECTIVES))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--start", default="", help="only sets whose name begins so: a for those with crop")
    parser.add_argument("--measure", default="centre_z", help="which error: centre_z, centre_h, knn_h, ...")
    parser.add_argument("--resamples", type=int, default=5, help="drawings of views behind each 1 - sigma")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.action == "train":
        train(arguments.rows, arguments.methods, arguments.seeds, arguments.start)
    elif arguments.action == "correlate":
        correlate(arguments.rows, arguments.measure, arguments.resamples)
    else:
        parser.print_help()

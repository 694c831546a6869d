"""Does concentration before training predict the error after it? Train with many augmentation sets, and correlate.

    VERGENCE_DATA=... python benchmarks/ranking.py train rows.jsonl      # 40 s a row; continues where it stopped
    VERGENCE_DATA=... python benchmarks/ranking.py correlate rows.jsonl  # ranks the same sets, prints Spearman's rho

A row is one training: a small convnet on 5,120 images of CIFAR-10, another drawing for each seed, for 20 epochs, then
the error of the nearest-center classifier on the 10,000 test images. Rows in the file are not trained again.
"""

import argparse
import itertools
import json
import time
from functools import partial
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from scipy.stats import spearmanr
from torch import Tensor, nn

from vergence import data, encoders, evaluation
from vergence.objectives import barlow_twins, nt_xent
from vergence.stages.views import rank_views
from vergence.views import Recipe, from_letters, sample_keys

LETTERS = ("a", "ab", "ac", "ad", "ae", "abc", "abcd", "abcde", "bc", "bd", "be", "cd", "ce", "de")
STRENGTHS = (1.0, 0.25, 0.125)  # of color distortion beside the crop; 0.5 is the plain "ad"
OBJECTIVES = {
    "simclr": partial(nt_xent, temperature=0.2),
    "barlow_twins": partial(barlow_twins, off_diagonal=0.08),  # of .005, .02, .08 the best for (a,d) and (a,e), seed 0
}
EMBEDDINGS = {
    "simclr": "center_z",
    "barlow_twins": "center_scaled_z",
}  # unit length; standardized: as the theory has them
CROPPED = (*[letters for letters in LETTERS if "a" in letters], *[f"ad x {strength:g}" for strength in STRENGTHS])
FAMILIES = {
    "crop": (*[letters for letters in LETTERS if "a" in letters], *[f"ad x {strength:g}" for strength in STRENGTHS]),
    "strength": ("ad x 1", "ad", "ad x 0.25", "ad x 0.125"),
    "ladder": ("a", "ab", "abc", "abcd", "abcde"),
    "pairs": [letters for letters in LETTERS if len(letters) == 2],
    "all": (*LETTERS, *[f"ad x {strength:g}" for strength in STRENGTHS]),
}
CHANNELS, IMAGES, EPOCHS, BATCH, RATE = (16, 32, 64), 5120, 20, 256, 2e-3  # about 40 seconds of one core a training


def augmentation_sets() -> dict[str, Recipe]:
    """The sets compared: pairs, the ladder, and crop with weaker and stronger color distortion."""
    sets = {letters: from_letters(letters) for letters in LETTERS}
    return sets | {f"ad x {strength:g}": from_letters("ad", strength=strength) for strength in STRENGTHS}


def trained(recipe: Recipe, images: Tensor, method: str, seed: int) -> nn.Sequential:
    """A small convnet and its projector, trained with one set of views."""
    torch.manual_seed(seed)
    encoder = encoders.build("convnet", tuple(images.shape[1:]), channels=CHANNELS)
    encoder = encoder.to(memory_format=torch.channels_last)
    projector = encoders.mlp([encoder.width, 128, 128])
    learner = nn.Sequential(encoder, projector)
    optimizer = torch.optim.AdamW(learner.parameters(), lr=RATE)
    steps = EPOCHS * (len(images) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=steps, pct_start=0.1)
    for epoch in range(EPOCHS):
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(1000 * seed + epoch))
        for indices in order[: len(images) // BATCH * BATCH].split(BATCH):
            views = recipe(images[indices], sample_keys(seed, epoch, indices))
            loss = OBJECTIVES[method](*[learner(view.contiguous(memory_format=torch.channels_last)) for view in views])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return learner.eval()


@torch.no_grad()
def errors(learner: nn.Sequential, recipe: Recipe, train: data.Samples, test: data.Samples) -> dict[str, float]:
    """Errors on test images of the nearest class center and of nearest neighbors, among embeddings z and
    representations h, as they are and standardized."""
    h = [torch.cat([learner[0](recipe.plain(x)) for x in part.x.split(500)]) for part in (train, test)]
    z = [learner[1](part) for part in h]
    results = {}
    for name, (one, other) in {"z": z, "scaled_z": _scaled(z), "h": h, "scaled_h": _scaled(h)}.items():
        parts = (one, train.labels, other, test.labels)
        results[f"center_{name}"] = 1 - evaluation.nearest_center(*parts).accuracy
        results[f"knn_{name}"] = 1 - evaluation.knn(*parts, k=20).accuracy
    return results


def _scaled(parts: list[Tensor]) -> list[Tensor]:
    """Every dimension with mean 0 and deviation 1 over the training images, the first part."""
    return [(part - parts[0].mean(0)) / parts[0].std(0).clamp_min(1e-6) for part in parts]


def train(path: Path, methods: list[str], seeds: list[int], names: list[str]) -> None:
    """Append a row for every set named, method and seed that the file lacks."""
    samples, test = data.load("cifar10"), data.load("cifar10", split="test")
    done = {(row["set"], row["method"], row["seed"]) for row in rows(path)}
    sets = augmentation_sets()
    for seed, method, name in itertools.product(seeds, methods, names):
        if (name, method, seed) in done:
            continue
        began = time.process_time()
        drawn = samples.take(torch.randperm(len(samples), generator=torch.Generator().manual_seed(seed))[:IMAGES])
        learner = trained(sets[name], drawn.x, method, seed)
        row = {"set": name, "method": method, "seed": seed, **errors(learner, sets[name], drawn, test)}
        with path.open("a") as file:
            print(json.dumps({**row, "cpu_seconds": time.process_time() - began}), file=file)


def rows(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def correlate(path: Path, resamples: int) -> None:
    """Rank correlation of 1 - sigma before training with errors after it: over seeds, and for each seed alone."""
    scores = concentrations(path.with_suffix(".scores.json"), resamples)
    for method, (kind, names) in itertools.product(OBJECTIVES, FAMILIES.items()):
        for measure in (EMBEDDINGS[method], "knn_h"):
            found = errors_by_set(path, method, measure)
            own = [name for name in names if name in found]
            if len(own) < len(names):
                continue
            value, low, high = spearman([(scores[name], float(np.mean(found[name]))) for name in own])
            seeds = zip(*(found[name] for name in own), strict=False)  # those that all sets have
            alone = " ".join(f"{spearmanr([scores[name] for name in own], errors)[0]:5.2f}" for errors in seeds)
            print(f"{method:<13} {kind:<9} {len(own):>2} {measure:<16} {value:5.2f} [{low:5.2f}, {high:5.2f}]  {alone}")
            print("    " + "  ".join(f"{name} {np.mean(found[name]):.3f}" for name in own))
    scatter(path, scores).savefig(path.with_suffix(".png"), dpi=100)


def concentrations(path: Path, resamples: int) -> dict[str, float]:
    """1 - sigma of every set, kept in a file: some 14 seconds of one core a set."""
    if not path.exists():
        ranking = rank_views(data.load("cifar10", limit=500), augmentation_sets(), resamples=resamples)
        print(ranking.table())
        path.write_text(json.dumps(ranking.to_dict()))
    return {row["name"]: row["score"] for row in json.loads(path.read_text())["sets"]}


def errors_by_set(path: Path, method: str, measure: str) -> dict[str, list[float]]:
    """The error after training with each set that has rows, one for each seed."""
    found: dict[str, list[float]] = {}
    for row in sorted(rows(path), key=lambda row: row["seed"]):
        if row["method"] == method:
            found.setdefault(row["set"], []).append(row[measure])
    return found


def spearman(points: list[tuple[float, float]], draws: int = 2000) -> tuple[float, float, float]:
    """Spearman's rho, and a 95 % interval over resampled sets."""
    values, rng = np.array(points), np.random.default_rng(0)
    chosen = [rng.integers(len(values), size=len(values)) for _ in range(draws)]
    resampled = [spearmanr(*values[some].T)[0] for some in chosen if len(set(some)) > 1]
    return spearmanr(*values.T)[0], *np.nanpercentile(resampled, (2.5, 97.5))


def scatter(path: Path, scores: dict[str, float]) -> Figure:
    """Error of the nearest center against 1 - sigma, a panel for each method; bars span the seeds."""
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    for axes, method in zip(figure.subplots(1, 2), OBJECTIVES, strict=True):
        for name, errors in errors_by_set(path, method, EMBEDDINGS[method]).items():
            point = (scores[name], np.mean(errors))
            spread = [[point[1] - min(errors)], [max(errors) - point[1]]]
            axes.errorbar(*point, yerr=spread, fmt="o" if "a" in name else "x", color="#2b5fa5", markersize=4)
            axes.annotate(name, point, (4, 3), textcoords="offset points", fontsize=7)
        axes.set(title=method, xlabel="1 - sigma before training", ylabel="error of the nearest center after it")
        axes.spines[["top", "right"]].set_visible(False)
    return figure


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", nargs="?", choices=["train", "correlate"], help="nothing: only say this")
    parser.add_argument("rows", nargs="?", type=Path, default=Path("ranking_rows.jsonl"))
    parser.add_argument("--methods", nargs="+", default=list(OBJECTIVES))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--sets", nargs="+", default=list(augmentation_sets()), help="as letters: ab, 'ad x 1', ...")
    parser.add_argument("--resamples", type=int, default=5, help="drawings of views behind each 1 - sigma")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.action == "train":
        train(arguments.rows, arguments.methods, arguments.seeds, arguments.sets)
    elif arguments.action == "correlate":
        correlate(arguments.rows, arguments.resamples)
    else:
        parser.print_help()

"""Semi-supervised fine-tuning on CIFAR-10: 10,000 images, 1 % and 10 % of the labels, three seeds.

    python benchmarks/finetuning.py RUNS

Every seed trains `recipes/laptop_cifar10_short.yaml` for 40 epochs on the 10,000 images without labels (another seed of
weights, order and views), then fine-tunes the encoder on each of several draws of labels, beside a frozen linear probe
and training from scratch on the same labels. Test accuracy is on 2,000 images. The recipe and all settings of
`finetune`, which are its defaults, were chosen on training images outside of the 10,000. The run of a seed that is
there is used again.
"""

import sys
from pathlib import Path

import numpy as np

import vergence as vg
from vergence import config

RECIPE = Path(__file__).parents[1] / "recipes" / "laptop_cifar10_short.yaml"
EPOCHS = 40
SEEDS = (0, 1, 2)
LABELS = {"1%": 5, "10%": 4}  # with how many draws of them


def main(runs: Path) -> None:
    found: dict[str, list[dict]] = {spec: [] for spec in LABELS}
    for seed in SEEDS:
        run = runs / f"seed-{seed}"
        if not (run / "results.json").exists():
            options = {"limit": 10_000, "epochs": EPOCHS, "seed": seed, "track": (), "watching": {"every": 0}}
            vg.train(config.read(RECIPE), run=run, overwrite=True, quiet=True, **options)
        for spec, draws in LABELS.items():
            (row,) = vg.finetune(run, labels=(spec,), draws=draws, quiet=True).to_dict()["finetuning"]
            found[row["labels"]].append(row)
            print(seed, row["labels"], [round(score["accuracy"], 4) for score in row["scores"]], flush=True)
    for spec, rows in found.items():
        print(f"== {spec} of the labels ({rows[0]['count']})")
        for place, name in enumerate(("fine-tuned", "linear probe", "from scratch")):
            values = [row["scores"][place]["accuracy"] for row in rows]
            print(
                f"  {name:14} mean {np.mean(values):.3f}, worst seed {min(values):.3f}, sd {np.std(values, ddof=1):.3f}"
            )
        for key in ("over_scratch", "over_probe"):
            low = min(row[key]["low"] for row in rows)
            print(f"  {key}: {[round(row[key]['value'], 3) for row in rows]}, lowest end of an interval {low:+.3f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

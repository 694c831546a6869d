"""Every recipe for long runs is a strict config that builds its learner and trains."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from vergence import config
from vergence.data import from_arrays
from vergence.learning import loop, optimizers
from vergence.runs import assembly

RECIPES = [
    pytest.param(path, id=path.stem, marks=[pytest.mark.slow] if path.stem.startswith("imagenet") else [])
    for path in sorted((Path(__file__).parents[1] / "recipes").glob("*.yaml"))
    if not path.stem.startswith(("books", "laptop"))
]
SIDES = {
    "imagenette": 160,
    "imagenette320": 256,
    "cifar10": 32,
    "cifar100": 32,
    "stl10": 96,
    "tiny": 64,
    "imagenet100": 256,
}


@pytest.mark.parametrize("path", RECIPES)
def test_a_recipe_states_its_source_and_takes_two_steps_on_images_of_its_shape(path):
    settings = config.read(path)
    comment = path.read_text(encoding="utf-8").split("data:")[0]
    assert "https://arxiv.org/abs/" in comment
    assert re.search(r"Published: \d\d\.\d+ %", comment), "a recipe says what it should reach"
    assert 200 <= settings.epochs <= 1000
    side = SIDES[path.stem.split("_")[0]]
    assert settings.size in (0, side)
    images = torch.randint(0, 256, (4, side, side, 3), dtype=torch.uint8)
    samples = from_arrays(images.numpy(), [0, 1, 0, 1])
    parts = assembly.assemble(replace(settings, batch=2, epochs=1, device="cpu"), samples)
    optimizer = optimizers.optimizer(parts.learner, settings.optim)
    steps = list(loop.fit(parts.learner, optimizer, samples, parts.recipe, parts.config))
    assert len(steps) == 2
    assert all(torch.isfinite(parameter).all() for parameter in parts.learner.parameters())


@pytest.mark.parametrize(("name", "width"), [("laptop_cifar10", 512), ("laptop_cifar10_short", 256)])
def test_a_recipe_for_a_laptop_takes_the_whole_set_and_names_its_source(name, width):
    path = Path(__file__).parents[1] / "recipes" / f"{name}.yaml"
    settings = config.read(path)
    assert (settings.data, settings.limit) == ("cifar10", 0)
    assert "https://arxiv.org/abs/" in path.read_text(encoding="utf-8")
    samples = from_arrays(torch.randint(0, 256, (8, 32, 32, 3), dtype=torch.uint8).numpy(), [0, 1] * 4)
    parts = assembly.assemble(replace(settings, batch=4, epochs=1, device="cpu"), samples)
    optimizer = optimizers.optimizer(parts.learner, settings.optim)
    assert len(list(loop.fit(parts.learner, optimizer, samples, parts.recipe, parts.config))) == 2
    assert parts.learner.encoder.width == width


def test_the_recipe_for_sentences_trains_on_a_corpus(tmp_path):
    path = Path(__file__).parents[1] / "recipes" / "books_bag.yaml"
    lines = [f"b{i // 200}\tthe {word} and the {word} {i % 7}" for i, word in enumerate(["sea", "ship", "lamp"] * 200)]
    (tmp_path / "books_sentences.tsv").write_text("\n".join(lines))
    settings = config.read(path)
    small = replace(settings, data=f"text:{tmp_path}/books_sentences.tsv,pairs=next,vocabulary=64", batch=64)
    parts = assembly.assemble(small)
    optimizer = optimizers.optimizer(parts.learner, small.optim)
    *_, last = loop.fit(parts.learner, optimizer, parts.samples, parts.recipe, parts.config)
    assert parts.learner.encoder.width == 512 + 2 * (parts.samples.tokens.vocabulary - 1)  # fewer tokens than columns
    assert last.loss < 0  # above that, everything would coincide

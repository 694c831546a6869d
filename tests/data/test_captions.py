"""Images with captions: where the texts come from, and that CLIP finds an image by its text."""

import json

import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn.functional import normalize

from vergence import cli
from vergence.config import Config, Optim
from vergence.data import load
from vergence.data.text import tokenized
from vergence.features import extract
from vergence.learning.loop import fit
from vergence.learning.optimizers import optimizer
from vergence.runs import assembly

COLORS = {"red": (200, 40, 40), "green": (40, 200, 40), "blue": (40, 40, 200), "gray": (128, 128, 128)}


@pytest.fixture
def pictures(tmp_path):
    """Twenty noisy pictures of each color, with captions that name it among other words."""
    generator, rows = np.random.default_rng(0), []
    for number in range(80):
        name, color = list(COLORS.items())[number % 4]
        noise = generator.integers(-40, 41, (16, 16, 3))
        Image.fromarray((np.array(color) + noise).clip(0, 255).astype(np.uint8)).save(tmp_path / f"{number:02}.png")
        rows.append((f"{number:02}.png", f"picture {generator.integers(100)}, mostly {name}"))
    (tmp_path / "captions.csv").write_text("file,caption\n" + "\n".join(f'{file},"{text}"' for file, text in rows))
    return tmp_path


def test_both_tables_give_the_same_captions_in_the_order_of_the_images(pictures):
    read = load(f"folder:{pictures}", split="all", size=16)
    lines = (pictures / "captions.csv").read_text().splitlines()[1:]
    rows = [{"file": line[:6], "caption": line[8:-1]} for line in reversed(lines)]
    (pictures / "captions.csv").unlink()
    (pictures / "captions.jsonl").write_text("\n".join(map(json.dumps, rows)))
    again = load(f"folder:{pictures}", split="all", size=16)
    assert torch.equal(read.captions, again.captions)
    assert torch.equal(read.captions[3], tokenized([rows[-4]["caption"]], length=read.captions.shape[1])[0])


def test_captions_follow_their_images_into_a_split(pictures):
    whole, test = (load(f"folder:{pictures}", split=split, size=16) for split in ("all", "test"))
    places = [whole.names.index(name) for name in test.names]
    assert torch.equal(test.captions, whole.captions[places])


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("file,caption\n00.png,red\n", "no caption for 79 of 80 images; one is 01.png"),
        ("file,text\n00.png,red\n", "row 1: expected file and caption"),
    ],
)
def test_a_table_that_does_not_fit_the_images_is_refused(pictures, table, message):
    (pictures / "captions.csv").write_text(table)
    with pytest.raises(ValueError, match=message):
        load(f"folder:{pictures}")


def test_clip_finds_the_caption_of_a_picture_it_has_not_seen(pictures):
    config = Config(
        data=f"folder:{pictures}", size=16, method="clip", encoder="convnet", backbone={"channels": (16, 32)}, epochs=8,
        batch=16, optim=Optim(learning_rate=5e-3),
    )  # fmt: skip
    parts = assembly.assemble(config)
    for _ in fit(parts.learner, optimizer(parts.learner, config.optim), parts.samples, parts.recipe, parts.config):
        pass
    length = parts.samples.captions.shape[1]
    texts = parts.learner.branches[1].eval()(tokenized([f"mostly {name}" for name in COLORS], length=length))
    pictured = extract(parts.learner.encoder, parts.test, parts.recipe, branches=parts.learner.branches).z1
    chosen = (normalize(pictured, dim=1) @ normalize(texts, dim=1).T).argmax(1)
    truth = torch.tensor([int(name[:2]) % 4 for name in parts.test.names])
    assert (chosen == truth).float().mean() > 0.9


def test_clip_trains_from_the_command_line(pictures, tmp_path, capsys):
    words = f"train --data folder:{pictures} --size 16 --method clip --epochs 1 --batch 16 --track --quiet"
    assert cli.main([*words.split(), "--run", str(tmp_path / "run")]) == 0
    assert (tmp_path / "run" / "report.html").exists()


@pytest.mark.parametrize(
    ("data", "message"),
    [("digits", "compares images with their captions, and digits has none"), ("wine", "compares two kinds of data")],
)
def test_clip_refuses_data_of_one_kind(data, message):
    with pytest.raises(ValueError, match=message):
        assembly.assemble(Config(data=data, method="clip", batch=16))


def test_other_methods_do_not_read_captions(pictures):
    parts = assembly.assemble(Config(data=f"folder:{pictures}", size=16, method="simclr", batch=16))
    first, second = parts.recipe(
        parts.samples.x[:4], torch.arange(4), parts.recipe.fields_of(parts.samples, torch.arange(4))
    )
    assert first.shape == second.shape

"""A small real package with a row for every open table: made as a wheel and installed by pip, as a user's would be."""

import base64
import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

NAME, VERSION = "vergence_zoo", "1.2.3"

FILES = {
    "vergence_zoo/__init__.py": '__version__ = "1.2.3"\n',
    "vergence_zoo/rows.py": '''
"""Rows from outside."""

from contextlib import contextmanager

import numpy as np
import torch
from torch import nn

from vergence.data import Samples, from_arrays
from vergence.data.splits import part
from vergence.methods import Method
from vergence.views import Recipe
from vergence.views.recipe import plain
from vergence.counters import normal


def small_net(shape, *, hidden: int = 24, bend: float = 0.1):
    """A perceptron with one hidden layer.

    Args:
        hidden: width of the hidden layer
        bend: slope of the leaky units below zero
    """
    size = int(np.prod(shape))
    return nn.Sequential(nn.Flatten(), nn.Linear(size, hidden), nn.LeakyReLU(bend), nn.Linear(hidden, 16))


def square_loss(z1, z2, *, push: float = 1.0):
    """Squared distance of positives plus ``push`` times the squared correlation of columns.

    Args:
        push: weight of the repulsion
    """
    z1, z2 = (z - z.mean(0) for z in (z1, z2))
    gram = (z1.T @ z2) / len(z1)
    return (z1 - z2).square().sum(1).mean() + push * (gram - torch.eye(len(gram))).square().sum()


def noisy(*, level: float = 0.3) -> Recipe:
    """Gaussian noise on every number.

    Args:
        level: standard deviation of the noise
    """

    def draw(x, keys):
        x = plain(x)
        return x + level * normal(keys, x[0].numel()).view_as(x).float()

    return Recipe("any", (draw, draw), plain, f"noise of {level}")


def blobs(split, *, count: int = 120) -> Samples:
    """Two clouds of points in ten dimensions.

    Args:
        count: how many points
    """
    labels = np.arange(count) % 2
    x = np.random.default_rng(0).normal(size=(count, 10)) + 3 * labels[:, None]
    return part(from_arrays(x.astype(np.float32), labels), split)


plain_clr = Method("nt_xent", "chen2020simclr", {"temperature": 0.3}, projector=(8,))


def spread(h):
    """The standard deviation over rows and columns."""
    return float(h.std())


@contextmanager
def to_file(run, *, told: int = 0):
    """Every row of the log in a text file."""
    with open(run.path / "zoo.txt", "a") as file:
        yield lambda step, numbers: print(step, numbers["loss"], file=file, flush=True)


def guess(x, y, *, value: float = 0.5):
    """Always the same number of nats.

    Args:
        value: that number
    """
    return value
''',
}
GROUPS = {
    "encoders": {"zoo_net": "small_net"},
    "objectives": {"zoo_loss": "square_loss"},
    "views": {"zoo_noise": "noisy"},
    "data": {"zoo_blobs": "blobs"},
    "methods": {"zoo_clr": "plain_clr"},
    "diagnostics": {"zoo_spread": "spread"},
    "trackers": {"zoo_file": "to_file"},
    "estimators": {"zoo_guess": "guess"},
}


def wheel(folder: Path) -> Path:
    """The package as a wheel file."""
    info = f"{NAME}-{VERSION}.dist-info"
    lines = []
    for group, rows in GROUPS.items():
        lines += [f"[vergence.{group}]", *(f"{row} = vergence_zoo.rows:{name}" for row, name in rows.items()), ""]
    files = {
        **FILES,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {VERSION}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "\n".join(lines),
    }
    record = [f"{name},sha256={_digest(text)},{len(text.encode())}" for name, text in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""])
    path = folder / f"{NAME}-{VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


def installed(folder: Path) -> Path:
    """The package installed by pip into a folder of its own; put the folder on the path to use it."""
    site = folder / "site"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(site)]
    subprocess.run([*command, str(wheel(folder))], check=True)
    return site


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()

"""Eight sets of kinds that neither the development sets nor ``fresh.py`` hold.

    VERGENCE_DATA=... python benchmarks/foreign/kinds.py KINDS
    python benchmarks/foreign/suite.py KINDS ROWS.jsonl

Tables through random networks, passages of books by latent semantic analysis, MNIST by a random network, by spectra and
by cells, and textures by spectra. Needs scikit-image's photographs (``pip install --no-deps scikit-image==0.26.0``).
"""

import argparse
import gzip
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from embeddings import DATA
from PIL import Image
from sklearn import datasets
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import StandardScaler
from torch import nn

Named = tuple[str, np.ndarray, np.ndarray]  # a name, rows, labels
SEED, DIGITS, PATCHES, SIDE = 31, 500, 60, 24
BOOKS, SENTENCES, PASSAGE = 6, 3000, 5  # books, sentences drawn from them, sentences of a passage
TEXTURES = ("brick.png", "grass.png", "gravel.png", "coins.png", "chelsea.png", "coffee.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cache", type=Path)
    folder = parser.parse_args().cache
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    generator = np.random.default_rng(SEED)
    for make in (tables, passages, digits, textures):
        for name, h, labels in make(generator):
            known = np.unique(labels, return_inverse=True)[1]
            np.savez(folder / f"new-{name}.npz", h=np.asarray(h, np.float32), labels=known)
            print(f"new-{name}: {h.shape[0]} x {h.shape[1]}", flush=True)


def tables(generator: np.random.Generator) -> Iterator[Named]:
    for name, load, activation in (
        ("wine", datasets.load_wine, nn.Tanh),
        ("breast", datasets.load_breast_cancer, nn.GELU),
    ):
        x, y = load(return_X_y=True)
        order = generator.permutation(len(x))
        yield f"{name}-network", network(StandardScaler().fit_transform(x)[order], 128, 3, activation), y[order]
    x, y = datasets.load_diabetes(return_X_y=True)
    yield "diabetes-network", network(10 * x, 128, 4, nn.ReLU), y > 140


def passages(generator: np.random.Generator) -> Iterator[Named]:
    with gzip.open(DATA / "text" / "books_sentences.tsv.gz", "rt") as file:
        lines = [line.rstrip("\n").split("\t") for line in file]
    books = sorted({book for book, _ in lines})[2::3][:BOOKS]
    lines = [line for line in lines if line[0] in books]
    lines = [lines[place] for place in generator.permutation(len(lines))[:SENTENCES]]
    made = []
    for book in books:
        own = [sentence for name, sentence in lines if name == book]
        starts = range(0, len(own) - PASSAGE + 1, PASSAGE)
        made += [(book, " ".join(own[start : start + PASSAGE])) for start in starts]
    made = [made[place] for place in generator.permutation(len(made))]
    words = TfidfVectorizer(sublinear_tf=True, min_df=2).fit_transform([text for _, text in made])
    rows = TruncatedSVD(64, random_state=1).fit_transform(words)
    yield "passages-lsa", rows, np.array([book for book, _ in made])


def digits(generator: np.random.Generator) -> Iterator[Named]:
    stored = np.load(DATA / "mnist.npz")
    taken = generator.permutation(len(stored["x_train"]))[:DIGITS]
    x, y = stored["x_train"][taken] / 255, stored["y_train"][taken]
    yield "mnist-network", network(x.reshape(DIGITS, -1) - 0.13, 256, 5, nn.ReLU), y
    yield "mnist-spectrum", np.log1p(np.abs(np.fft.fft2(x))[:, :8, :8].reshape(DIGITS, -1)), y
    cells = x.reshape(DIGITS, 7, 4, 7, 4)
    yield "mnist-cells", np.concatenate([f((2, 4)).reshape(DIGITS, -1) for f in (cells.mean, cells.std)], 1), y


def textures(generator: np.random.Generator) -> Iterator[Named]:
    found = find_spec("skimage")
    if found is None or found.origin is None:
        return
    rows, labels = [], []
    for label, name in enumerate(TEXTURES):
        photo = np.asarray(Image.open(Path(found.origin).parent / "data" / name).convert("L"), float)
        for _ in range(PATCHES):
            top, left = (generator.integers(0, size - SIDE) for size in photo.shape)
            patch = photo[top : top + SIDE, left : left + SIDE]
            waves = np.log1p(np.abs(np.fft.rfft2(patch - patch.mean()))[:8, :8]).ravel() / 10
            rows.append(np.r_[np.histogram(patch, 16, (0, 255))[0] / SIDE**2, waves])
            labels.append(label)
    order = generator.permutation(len(labels))
    yield "textures-spectrum", np.array(rows)[order], np.array(labels)[order]


def network(x: np.ndarray, width: int, seed: int, activation: type[nn.Module]) -> np.ndarray:
    """The output of a random network with two hidden layers."""
    torch.manual_seed(seed)
    layers = [nn.Linear(x.shape[1], width), activation(), nn.Linear(width, width), activation(), nn.Linear(width, 48)]
    with torch.no_grad():
        return nn.Sequential(*layers)(torch.tensor(x, dtype=torch.float32)).numpy()


if __name__ == "__main__":
    main()

"""Fifteen sets whose classes are of unequal size, made after the last repair of the doctor and examined once.

    VERGENCE_DATA=... python benchmarks/foreign/unequal.py SETS
    python benchmarks/foreign/suite.py SETS ROWS.jsonl

Nearly all other sets here have classes of about one size. A class of these is .55 to .9 times as common as the one
before, or one is a tenth of the rows. Photographs of the fourth training batch by EfficientNet-Lite0, digits and
garments of the training parts, sentences of STS by their source, books by author, exercises by person, tables of
scikit-learn, and laws: clusters on a sphere, sums of a few atoms, series of one lag, trees of clusters, rare lumps.
Needs what ``embeddings.py`` needs.
"""

import argparse
import gzip
from collections.abc import Iterator
from pathlib import Path

import embeddings
import numpy as np
import torch
from embeddings import DATA, FASHION, Set, fields
from held_out import keep
from PIL import Image
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.kernel_approximation import RBFSampler
from sklearn.preprocessing import StandardScaler

SEED, ROWS = 271828, 480


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(SEED)
    for make in (images, sentences, measured, laws):
        keep(make(generator), folder)


def unequal(labels: np.ndarray, falling: float, generator: np.random.Generator, rows: int = ROWS) -> np.ndarray:
    """Places of rows, each class of which is so many times as common as the one before, in a drawn order."""
    classes = generator.permutation(np.unique(labels))
    shares = falling ** np.arange(len(classes))
    counts = np.maximum(6, (rows * shares / shares.sum()).astype(int))
    chosen = [generator.permutation(np.flatnonzero(labels == own))[:count]
              for own, count in zip(classes, counts, strict=True)]  # fmt: skip
    return generator.permutation(np.concatenate(chosen))


def images(generator: np.random.Generator) -> Iterator[Set]:
    sheet = np.asarray(Image.open(DATA / "cifar10" / "data_batch_4.webp").convert("RGB"))
    photos = sheet.reshape(-1, 32, 100, 32, 3).transpose(0, 2, 1, 3, 4).reshape(-1, 32, 32, 3)
    labels = np.load(DATA / "cifar10" / "labels.npz")["y_train"][30_000:40_000]
    places = unequal(labels, 0.7, generator)
    first, again = (embeddings.efficientnet(x) for x in (photos[places], embeddings.shifted(photos[places])))
    yield "photos-last", first["last"], labels[places], again["last"]
    yield "photos-middle-components", PCA(48, random_state=0).fit_transform(first["middle"]), labels[places], None
    horse = (labels == 7).astype(int)
    places = generator.permutation(np.concatenate([np.flatnonzero(horse)[:50], np.flatnonzero(1 - horse)[:430]]))
    yield "one-in-ten-is-a-horse", embeddings.efficientnet(photos[places])["last"], horse[places], None
    stored = np.load(DATA / "mnist.npz")
    places = unequal(stored["y_train"], 0.8, generator)
    flat = stored["x_train"][places].reshape(len(places), -1) / 255
    fourier = RBFSampler(gamma=0.01, n_components=160, random_state=0).fit_transform(flat)
    yield "digits-fourier", fourier, stored["y_train"][places], None
    with gzip.open(FASHION / "train-images-idx3-ubyte.gz") as file:
        x = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 28, 28)
    with gzip.open(FASHION / "train-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8)
    places = unequal(labels, 0.75, generator)
    gradients = embeddings.hog(np.repeat(x[places][..., None], 3, axis=3).astype(float))
    yield "garments-gradients", gradients, labels[places], None


def sentences(generator: np.random.Generator) -> Iterator[Set]:
    rows = fields("stsb.tsv.gz")[1:]
    genres = np.array([row[1] for row in rows])
    places = unequal(genres, 0.55, generator)
    told, retold = ([rows[place][column] for place in places] for column in (3, 4))
    yield "sources-minilm", embeddings.minilm(told)["middle"], genres[places], embeddings.minilm(retold)["middle"]
    tf = TfidfVectorizer(min_df=2).fit_transform(told)
    yield "sources-words", TruncatedSVD(60, random_state=0).fit_transform(tf), genres[places], None
    books = fields("books_sentences.tsv.gz")
    names = np.array([row[0] for row in books])
    some = np.isin(names, ("Dracula", "carroll-alice", "melville-moby_dick", "bryant-stories", "Treasure-Island"))
    few = np.flatnonzero(some)
    places = few[unequal(names[few], 0.7, generator)]
    letters = CountVectorizer(analyzer="char", ngram_range=(2, 3), min_df=4).fit_transform(
        [books[i][1] for i in places]
    )
    yield "authors-letters", TruncatedSVD(80, random_state=0).fit_transform(np.sqrt(letters)), names[places], None


def measured(generator: np.random.Generator) -> Iterator[Set]:
    stored = np.load(DATA / "timeseries" / "watch_imu.npz", allow_pickle=False)
    x, offset = stored["x"], stored["offset"]
    windows, people = [], []
    for start, stop, person in zip(offset[:-1], offset[1:], stored["subject"], strict=True):
        for place in range(int(start), int(stop) - 128, 256):
            windows.append(np.log(np.abs(np.fft.rfft(x[place : place + 128], axis=0))[1:20] + 1e-2).ravel())
            people.append(str(person))
    places = unequal(np.array(people), 0.8, generator)
    yield "people-spectra", np.array(windows)[places], np.array(people)[places], None
    x, y = load_wine(return_X_y=True)
    places = unequal(y, 0.6, generator, rows=130)
    yield "wines-products", _products(StandardScaler().fit_transform(x)[places]), y[places], None
    x, y = load_breast_cancer(return_X_y=True)
    places = generator.permutation(np.concatenate([np.flatnonzero(y == 1)[:330], np.flatnonzero(y == 0)[:50]]))
    yield (
        "cells-random-network",
        np.tanh(StandardScaler().fit_transform(x)[places] @ generator.standard_normal((30, 64)) / 4),
        y[places],
        None,
    )


def _products(x: np.ndarray) -> np.ndarray:
    first, second = np.triu_indices(x.shape[1])
    return np.concatenate([x, x[:, first] * x[:, second]], axis=1)


def laws(generator: np.random.Generator) -> Iterator[Set]:
    labels = generator.choice(7, ROWS, p=0.7 ** np.arange(7) / (0.7 ** np.arange(7)).sum())
    rows = generator.standard_normal((7, 48))[labels] + 1.2 * generator.standard_normal((ROWS, 48))
    yield "sphere", rows / np.linalg.norm(rows, axis=1, keepdims=True), labels, None
    atoms, likes = generator.standard_normal((40, 96)), generator.gamma(0.3, size=(5, 40))
    labels = generator.choice(5, ROWS, p=[0.5, 0.25, 0.12, 0.08, 0.05])
    codes = generator.gamma(0.2, size=(ROWS, 40)) * likes[labels]
    yield "sums-of-atoms", codes @ atoms + 0.05 * generator.standard_normal((ROWS, 96)), labels, None
    labels = generator.choice(3, ROWS, p=[0.7, 0.2, 0.1])
    series, lag = generator.standard_normal((ROWS, 80)), np.array([0.2, 0.6, 0.9])[labels]
    for step in range(1, 80):
        series[:, step] += lag * series[:, step - 1]
    yield "one-lag", np.log(np.abs(np.fft.rfft(series, axis=1)) + 0.1), labels, None
    branch = generator.integers(0, 4, ROWS)
    labels = (generator.random((ROWS, 4)) < np.array([0.05, 0.15, 0.3, 0.1])[branch][:, None]).argmax(axis=1)
    leaves = 3 * generator.standard_normal((4, 40))[branch] + 1.5 * generator.standard_normal((4, 40))[labels]
    yield "trees", leaves + generator.standard_normal((ROWS, 40)), labels, None


if __name__ == "__main__":
    main()

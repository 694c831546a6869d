"""Seventeen sets made apart from whoever wrote the doctor, and examined once after its last repair.

    VERGENCE_DATA=... python benchmarks/foreign/apart.py SETS
    python benchmarks/foreign/suite.py SETS ROWS.jsonl

Sentences by hashed letters, by words and by topics; digits and photographs of the training parts by zones, random
convolutions, colors and binary patterns; series by spectra and autocorrelations; digits by their neighbor graph; laws
with heavy tails and with sources that prefer classes. In *two-domains* half of the digits are negatives: one model,
and yet two groups.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from embeddings import DATA, Set, fields
from held_out import keep
from numpy.lib.stride_tricks import sliding_window_view
from PIL import Image
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.decomposition import NMF, TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.manifold import SpectralEmbedding
from sklearn.preprocessing import QuantileTransformer

SEED = 990017
AROUND = ((0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1), (-1, 0), (-1, 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(SEED)
    for make in (texts, images, series, laws):
        keep(make(generator), folder)


def texts(generator: np.random.Generator) -> Iterator[Set]:
    lines, labels = _some("sst2", 1400, generator)
    letters = HashingVectorizer(analyzer="char", ngram_range=(3, 5), n_features=2**13).transform(lines)
    yield "sst2-letters", TruncatedSVD(60, random_state=1).fit_transform(letters), labels, None
    lines, labels = _some("mpqa", 1200, generator)
    words = TfidfVectorizer(sublinear_tf=True).fit_transform(lines)
    yield "mpqa-words", TruncatedSVD(90, random_state=1).fit_transform(words), labels, None
    lines, labels = _some("cr", 1000, generator)
    words = CountVectorizer(min_df=2, binary=True).fit_transform(lines)
    lengths = np.sqrt(np.maximum(1, np.asarray(words.sum(1)).ravel()))[:, None]
    yield "cr-random-vectors", words @ generator.standard_normal((words.shape[1], 150)) / lengths, labels, None
    lines, labels = _some("trec", 1300, generator)
    topics = NMF(30, random_state=0, max_iter=60).fit_transform(CountVectorizer(min_df=3).fit_transform(lines))
    yield "trec-topics", topics, labels, None


def _some(name: str, count: int, generator: np.random.Generator) -> tuple[list[str], np.ndarray]:
    """Some sentences and their labels; of TREC those for training, by their six kinds."""
    rows = fields(f"{name}.tsv.gz")[1:]
    rows = [row for row in rows if row[0] == "train"] if name == "trec" else rows
    chosen = [rows[place] for place in generator.permutation(len(rows))[:count]]
    return [row[-1] for row in chosen], np.array([row[1] if name == "trec" else row[-2] for row in chosen])


def images(generator: np.random.Generator) -> Iterator[Set]:
    stored = np.load(DATA / "mnist.npz")
    every, digits = stored["x_train"].reshape(-1, 28, 28) / 255.0, stored["y_train"]
    chosen = generator.permutation(len(every))[:1100]
    x, y = every[chosen], digits[chosen]
    yield "digits-zones", np.sqrt(x.reshape(-1, 7, 4, 7, 4).mean((2, 4)).reshape(len(x), -1)), y, None
    kernels = generator.standard_normal((24, 5, 5))
    seen = _convolved(x, kernels)
    yield "digits-convolutions", seen.reshape(len(x), 24, 4, 6, 4, 6).max((3, 5)).reshape(len(x), -1), y, None
    sheet = np.asarray(Image.open(DATA / "cifar10" / "data_batch_5.webp").convert("RGB"))
    photos = sheet.reshape(-1, 32, 100, 32, 3).transpose(0, 2, 1, 3, 4).reshape(-1, 32, 32, 3)
    places = generator.permutation(10_000)[:1400]
    labels, photos = np.load(DATA / "cifar10" / "labels.npz")["y_train"][40_000:][places], photos[places]
    colors = [[np.histogram(photo[..., k] / 255.0, 12, (0, 1))[0] for k in range(3)] for photo in photos]
    yield "photos-colors", np.sqrt(np.array(colors).reshape(len(photos), -1) / 1024), labels, None
    gray = photos.mean(-1)
    codes = sum((np.roll(gray, (-u, -v), (1, 2)) >= gray).astype(int) << b for b, (u, v) in enumerate(AROUND))
    counts = [np.bincount(code.ravel(), minlength=256) for code in codes[:, 1:-1, 1:-1]]
    yield "photos-patterns", np.sqrt(np.stack(counts)), labels, None
    places = generator.permutation(len(every))[:1200]
    both, negative = every[places].copy(), generator.random(1200) < 0.5
    both[negative] = 1 - np.roll(both[negative], 3, 2)
    mixing = generator.standard_normal((784, 120)) / 10
    yield "two-domains", np.tanh(both.reshape(1200, -1) @ mixing), digits[places], None
    again = _convolved(x + 0.3 * generator.standard_normal(x.shape), kernels)
    yield "digits-noisy-views", np.log1p(seen.mean((2, 3))), y, np.log1p(again.mean((2, 3)))


def _convolved(x: np.ndarray, kernels: np.ndarray) -> np.ndarray:
    return np.maximum(0, np.einsum("nabij,kij->nkab", sliding_window_view(x, (5, 5), (1, 2)), kernels))


def series(generator: np.random.Generator) -> Iterator[Set]:
    stored = np.load(DATA / "timeseries" / "ucr_uea_small.npz")
    sets = {
        name: [np.concatenate([stored[f"{name}_{part}_{split}"] for split in ("train", "test")]) for part in "xy"]
        for name in ("OSULeaf", "ItalyPowerDemand", "ACSF1")
    }
    (leaves, leaf), (power, season), (appliances, kind) = ((x.reshape(len(x), -1), y) for x, y in sets.values())
    yield "leaves-spectra", np.log(np.abs(np.fft.rfft(leaves, axis=1))[:, 1:60] + 1e-3), leaf, None
    yield "power-values", power, season, None
    yield "appliances-lags", np.stack([_lags(row - row.mean()) for row in appliances]), kind, None


def _lags(row: np.ndarray) -> np.ndarray:
    return np.correlate(row, row, "full")[len(row) - 1 : len(row) + 60] / (row.var() * len(row) + 1e-9)


def laws(generator: np.random.Generator) -> Iterator[Set]:
    x, y = load_digits(return_X_y=True)
    yield "digits-graph", SpectralEmbedding(25, random_state=0, n_neighbors=12).fit_transform(x), y, None
    x, y = load_breast_cancer(return_X_y=True)
    normal = QuantileTransformer(n_quantiles=30, output_distribution="normal", random_state=0)
    yield "cells-quantiles", normal.fit_transform(x), y, None
    centers, y = 0.9 * generator.standard_normal((8, 40)), generator.integers(0, 8, 900)
    yield "heavy-tails", centers[y] + generator.standard_t(3, (900, 40)), y, None
    source, shares = generator.integers(0, 3, 1000), generator.dirichlet(np.full(6, 0.8), 3)
    y = np.array([generator.choice(6, p=shares[own]) for own in source])
    spots, classes = 2 * generator.standard_normal((3, 50)), generator.standard_normal((6, 50))
    yield "sources", spots[source] + classes[y] + generator.standard_normal((1000, 50)), y, None


if __name__ == "__main__":
    main()

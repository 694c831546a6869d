"""Eleven sets made after the last threshold was chosen, of features that no other set here has; examined once.

VERGENCE_DATA=... python benchmarks/foreign/once.py ONCE
python benchmarks/foreign/suite.py ONCE ROWS.jsonl
"""

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from embeddings import DATA, Set, fields
from held_out import keep, sheet
from sklearn import datasets
from sklearn.decomposition import NMF, FactorAnalysis, FastICA, KernelPCA
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer
from sklearn.manifold import Isomap
from sklearn.neural_network import BernoulliRBM
from sklearn.preprocessing import PolynomialFeatures, QuantileTransformer, StandardScaler
from sklearn.random_projection import GaussianRandomProjection

SEED, ROWS = 2024, 400


def made() -> Iterator[Set]:
    generator = np.random.default_rng(SEED)
    stored = np.load(DATA / "mnist.npz")
    chosen = generator.permutation(10_000)[:ROWS]
    images, digits = stored["x_test"][chosen] / 255.0, stored["y_test"][chosen]
    flat = images.reshape(ROWS, -1)
    yield "mnist-kernel-components", KernelPCA(32, kernel="rbf", gamma=0.02).fit_transform(flat), digits, None
    yield "mnist-isomap", Isomap(n_components=12).fit_transform(flat), digits, None
    yield "mnist-random-torch", random_network(images[:, None]), digits, None
    photos, kinds = (part[:ROWS] for part in sheet())
    yield "photos-haar", haar(photos.mean(axis=3) / 255), kinds, None
    yield "photos-random-torch", random_network(photos.transpose(0, 3, 1, 2) / 255), kinds, None
    x, y = datasets.load_digits(return_X_y=True)
    order = generator.permutation(len(x))[:ROWS]
    rbm = BernoulliRBM(48, n_iter=10, random_state=0)
    yield "digits-rbm", rbm.fit_transform(x[order] / 16), y[order], None
    yield "digits-factors", FactorAnalysis(16, random_state=0).fit_transform(x[order]), y[order], None
    x, y = datasets.load_breast_cancer(return_X_y=True)
    x = StandardScaler().fit_transform(x)
    yield "breast-independent", FastICA(15, random_state=0, max_iter=1000).fit_transform(x)[:ROWS], y[:ROWS], None
    x, y = datasets.load_wine(return_X_y=True)
    x = QuantileTransformer(n_quantiles=50, output_distribution="normal").fit_transform(x)
    order = generator.permutation(len(x))
    yield "wine-quantiles-squared", PolynomialFeatures(2, include_bias=False).fit_transform(x)[order], y[order], None
    yield from texts(generator)


def texts(generator: np.random.Generator) -> Iterator[Set]:
    for name, words in (("trec", "hashed"), ("subj", "topics")):
        rows = fields(f"{name}.tsv.gz")[1:]
        rows = [rows[i] for i in generator.permutation(len(rows))[:ROWS]]
        labels, sentences = np.array([row[-2] for row in rows]), [row[-1] for row in rows]
        if words == "hashed":
            letters = HashingVectorizer(analyzer="char_wb", ngram_range=(3, 5), n_features=2**14)
            found = GaussianRandomProjection(128, random_state=0).fit_transform(letters.fit_transform(sentences))
        else:
            counts = CountVectorizer(min_df=2).fit_transform(sentences)
            found = NMF(24, init="nndsvda", max_iter=400, random_state=0).fit_transform(counts)
        yield f"{name}-{words}", np.asarray(found), labels, None


def haar(images: np.ndarray, levels: int = 3) -> np.ndarray:
    """Coefficients of Haar's wavelets, the finest level as absolute means."""
    parts, rest = [], images
    for level in range(levels):
        a, b, c, d = (rest[:, i::2, j::2] for i in (0, 1) for j in (0, 1))
        details = np.stack([a + b - c - d, a - b + c - d, a - b - c + d], axis=1) / 4
        size = details.shape[2] // 4
        pooled = np.abs(details).reshape(len(images), 3, 4, size, 4, size).mean(axis=(3, 5))
        parts.append(pooled.reshape(len(images), -1) if level < levels - 1 else details.reshape(len(images), -1))
        rest = (a + b + c + d) / 4
    return np.concatenate([*parts, rest.reshape(len(images), -1)], axis=1)


def random_network(images: np.ndarray) -> np.ndarray:
    torch.manual_seed(SEED)
    width = [images.shape[1], 24, 48, 96]
    layers: list[torch.nn.Module] = []
    for before, after in itertools.pairwise(width):
        layers += [torch.nn.Conv2d(before, after, 3, padding=1), torch.nn.GELU(), torch.nn.MaxPool2d(2)]
    with torch.no_grad():
        found = torch.nn.Sequential(*layers)(torch.from_numpy(images).float())
    return np.concatenate([found.mean(dim=(2, 3)).numpy(), found.amax(dim=(2, 3)).numpy()], axis=1)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    keep(made(), folder)

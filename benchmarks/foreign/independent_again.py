"""Ten more sets such as people have, on which nothing was chosen, examined once after the last repairs.

    python benchmarks/foreign/independent_again.py SETS --packages FOLDER
    python benchmarks/foreign/suite.py SETS ROWS.jsonl

Other data, classes, layers and features than those of ``independent.py``, whose FOLDER this reads, beside the data
files of ``pip install orange3==3.40.0``, unpacked there as ``Orange``.
"""

import argparse
import csv
import gzip
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from embeddings import DATA, FASHION, Set
from embeddings import efficientnet as lite0
from embeddings import minilm as layers_of_minilm
from independent import lite2, moved, sheet, spectrum
from PIL import Image
from scipy.io import wavfile
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.neural_network import MLPRegressor
from sklearn.preprocessing import StandardScaler, normalize

SEED = 61016


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", type=Path)
    parser.add_argument("--packages", type=Path, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.sets.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(SEED)
    for make in (images, texts, speech, tables):
        for name, h, labels, second in make(options.packages, generator):
            arrays = {"h": np.asarray(h, np.float32), "labels": np.unique(labels, return_inverse=True)[1]}
            arrays |= {} if second is None else {"z2": np.asarray(second, np.float32)}
            np.savez(options.sets / f"{name}.npz", **arrays)
            print(f"{name}: {h.shape[0]} x {h.shape[1]}, {len(np.unique(labels))} classes", flush=True)


def images(folder: Path, generator: np.random.Generator) -> Iterator[Set]:
    drawn, names = [], []
    with zipfile.ZipFile(folder / "brendenlake+omniglot" / "python" / "images_background_small1.zip") as archive:
        for member in sorted(archive.namelist()):
            if member.endswith(".png"):
                drawn.append(np.asarray(Image.open(io.BytesIO(archive.read(member))).convert("RGB")))
                names.append("/".join(member.split("/")[1:3]))
    characters = np.array(names)
    chosen = np.isin(characters, generator.choice(np.unique(characters), 15, replace=False))
    order = generator.permutation(np.flatnonzero(chosen))
    yield "characters-lite2", normalize(lite2(np.stack(drawn)[order])["last"]), characters[order], None
    x, y = sheet("data_batch_5"), np.load(DATA / "cifar10" / "labels.npz")["y_train"][40_000:]
    order = generator.permutation(np.flatnonzero(np.isin(y, (0, 1, 8, 9))))[:600]
    first, again = lite0(x[order]), lite0(moved(x[order], generator))
    yield "vehicles-lite0-middle", first["middle"], y[order], again["middle"]
    stored = np.load(DATA / "mnist.npz")
    order = generator.permutation(np.flatnonzero(np.isin(stored["y_train"], (3, 5, 8))))[:500]
    from skimage.feature import hog

    rows = [
        hog(one, orientations=8, pixels_per_cell=(7, 7), cells_per_block=(1, 1)) for one in stored["x_train"][order]
    ]
    yield "three-digits-gradients", np.stack(rows), stored["y_train"][order], None
    with gzip.open(FASHION / "train-images-idx3-ubyte.gz") as file:
        x = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 784) / 255
    with gzip.open(FASHION / "train-labels-idx1-ubyte.gz") as file:
        y = np.frombuffer(file.read(), np.uint8, offset=8)
    order = generator.permutation(len(x))[:3600]
    coder = MLPRegressor(hidden_layer_sizes=(32,), max_iter=15, random_state=0).fit(x[order[:2800]], x[order[:2800]])
    yield (
        "garments-coded",
        np.maximum(0, x[order[2800:]] @ coder.coefs_[0] + coder.intercepts_[0]),
        y[order[2800:]],
        None,
    )


def texts(folder: Path, generator: np.random.Generator) -> Iterator[Set]:
    tweets = folder / "cardiffnlp+tweeteval" / "datasets" / "sentiment"
    said, tone = ((tweets / f"val_{what}.txt").read_text(encoding="utf-8").splitlines() for what in ("text", "labels"))
    order = generator.permutation(len(tone))[:800]
    yield "tweets-minilm-middle", layers_of_minilm([said[i] for i in order])["middle"], np.array(tone)[order], None
    told = json.loads((folder / "clinc+oos-eval" / "data" / "data_full.json").read_text())["val"]
    intents = np.array([intent for _, intent in told])
    chosen = np.isin(intents, generator.choice(np.unique(intents), 30, replace=False))
    order = generator.permutation(np.flatnonzero(chosen))
    letters = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4), sublinear_tf=True, min_df=2)
    counts = letters.fit_transform([told[i][0] for i in order])
    yield "commands-letters", TruncatedSVD(80, random_state=0).fit_transform(counts), intents[order], None
    path = folder / "PolyAI-LDN+task-specific-datasets" / "banking_data" / "test.csv"
    with path.open(encoding="utf-8") as file:
        rows = list(csv.reader(file))[1:]
    intents = np.array([row[1] for row in rows])
    chosen = np.isin(intents, generator.choice(np.unique(intents), 15, replace=False))
    order = generator.permutation(np.flatnonzero(chosen))
    yield "banking-minilm-words", layers_of_minilm([rows[i][0] for i in order])["words"], intents[order], None


def speech(folder: Path, generator: np.random.Generator) -> Iterator[Set]:
    """Five of the spoken digits, by principal components of their spectra."""
    paths = sorted((folder / "Jakobovski+free-spoken-digit-dataset" / "recordings").glob("[02468]_*.wav"))
    order = generator.permutation(len(paths))[:600]
    rows = np.stack([spectrum(wavfile.read(paths[i])[1], bands=32, parts=6) for i in order])
    labels = np.array([paths[i].stem.split("_")[0] for i in order])
    yield "even-digits-components", PCA(40, random_state=0).fit_transform(rows), labels, None


def tables(folder: Path, generator: np.random.Generator) -> Iterator[Set]:
    lines = (folder / "Orange" / "datasets" / "brown-selected.tab").read_text().splitlines()
    names = [line.split("\t") for line in lines]
    place = names[2].index("class") if "class" in names[2] else [cell.strip() for cell in names[2]].index("class")
    kept = [column for column, kind in enumerate(names[1]) if kind in ("continuous", "c")]
    numbers = np.array([[float(row[c]) if row[c] not in ("", "?") else np.nan for c in kept] for row in names[3:]])
    numbers = np.where(np.isnan(numbers), np.nanmean(numbers, axis=0), numbers)
    order = generator.permutation(len(numbers))
    yield "genes-values", numbers[order], np.array([row[place] for row in names[3:]])[order], None
    with (folder / "jbrownlee+Datasets" / "ecoli.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.reader(file) if row]
    labels = np.array([row[-1] for row in rows])
    names, counts = np.unique(labels, return_counts=True)
    common = np.isin(labels, names[counts >= 20])
    x, labels = np.array([row[:-1] for row in rows], float)[common], labels[common]
    x = StandardScaler().fit_transform(x[:, x.std(axis=0) > 0.1])
    order = generator.permutation(len(x))
    yield "bacteria-table", x[order], labels[order], None


if __name__ == "__main__":
    main()

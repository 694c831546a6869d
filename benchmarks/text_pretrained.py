"""A pretrained sentence encoder continued: SimCSE without labels, and mined hard negatives; before and after.

    VERGENCE_DATA=DATA python benchmarks/text_pretrained.py rows.jsonl --model FOLDER --part dev --rates 1e-5 3e-5
    VERGENCE_DATA=DATA python benchmarks/text_pretrained.py rows.jsonl --model FOLDER --seeds 0 1 2

``FOLDER`` is a model of sentence-transformers, such as all-MiniLM-L6-v2; ``DATA/text/stsb.tsv.gz`` is STS-B. *simcse*
sees the sentences of its training part, each under two dropout masks; *mined* its training pairs scored 4 or more, with
a hard negative each. Rates are chosen on its dev part; the figures are of its test part. The interval is of the
difference, by drawing the pairs again 1,000 times.
"""

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

import vergence
from vergence.data.pairs import scored
from vergence.evaluation.sentences import cosine
from vergence.runs import sentences

STSB = Path(os.environ.get("VERGENCE_DATA", "data")) / "text" / "stsb.tsv.gz"
KINDS = ("simcse", "mined")


def data_of(kind, model, place):
    """The training data of a kind, as a source."""
    if kind == "simcse":
        train = scored(str(STSB), part="train")
        texts = dict.fromkeys([*train.first, *train.second])
        (place / "texts.txt").write_text("\n".join(texts))
        return f"text:{place}/texts.txt"
    told = vergence.mine(model, f"pairs:{STSB},above=4", output=place / "mined.tsv", margin=0.05)
    print(*told.lines, sep="\n", flush=True)
    return f"pairs:{place}/mined.tsv"


def seen(encode, pairs):
    """Cosines of the pairs, and the alignment and uniformity of SimCSE's plane."""
    first, second = encode(pairs.first), encode(pairs.second)
    plane = {row.name: row.value for row in sentences.plane(first, second, pairs.scores)}
    return cosine(first, second), plane


def difference(before, after, scores, resamples=1000):
    """The difference of two rank correlations x 100 with its 95 % interval, pairs drawn again together."""
    draw, n = np.random.default_rng(0), len(scores)
    places = [draw.integers(0, n, n) for _ in range(resamples)]
    found = [_spearman(after[i], scores[i]) - _spearman(before[i], scores[i]) for i in places]
    return _spearman(after, scores) - _spearman(before, scores), *np.percentile(found, [2.5, 97.5])


def _spearman(cosines, scores):
    return 100 * float(spearmanr(cosines, scores).statistic)


def continued(kind, model, *, rate, seed, epochs, batch, limit, pairs, before, place):
    """One training and what it changed."""
    options = {"batch": batch, "epochs": epochs, "seed": seed, "limit": limit}
    options["optim"] = {"learning_rate": rate, "warmup": 0.1}
    begun = time.process_time()
    vergence.train(
        data=data_of(kind, model, place), method="simcse", start=str(model), run=place / "run", track=(),
        watching={"every": 0}, quiet=True, overwrite=True, **options,
    )  # fmt: skip
    after, plane = seen(sentences.reader_of(place / "run"), pairs)
    moved, low, high = difference(before[0], after, pairs.scores)
    return {
        "kind": kind, "rate": rate, "seed": seed, "epochs": epochs, "batch": batch, "limit": limit,
        "before": _spearman(before[0], pairs.scores), "after": _spearman(after, pairs.scores),
        "difference": moved, "low": low, "high": high, "plane before": before[1], "plane after": plane,
        "seconds": time.process_time() - begun,
    }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path, help="where rows of results are added, JSON by lines")
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--part", choices=("dev", "test"), default="test")
    parser.add_argument("--rates", type=float, nargs="+", default=[3e-5])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--limit", type=int, default=0, help="so many texts or pairs, drawn; 0 for all")
    arguments = parser.parse_args()
    pairs = scored(str(STSB), part=arguments.part)
    before = seen(sentences.reader_of(arguments.model), pairs)
    options = {key: getattr(arguments, key) for key in ("epochs", "batch", "limit")}
    options |= {"pairs": pairs, "before": before}
    for kind in arguments.kinds:
        for rate in arguments.rates:
            for seed in arguments.seeds:
                with tempfile.TemporaryDirectory() as folder:
                    row = continued(kind, arguments.model, rate=rate, seed=seed, place=Path(folder), **options)
                row["part"] = arguments.part
                print(json.dumps(row), flush=True)
                with arguments.rows.open("a") as file:
                    file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()

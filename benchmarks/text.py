"""Sentences from scratch: STS, SentEval and speed of every recipe, beside TF-IDF and averaged word vectors.

    VERGENCE_DATA=DATA python benchmarks/text.py rows.jsonl --minutes 5 --seeds 0 1 2  # the table
    VERGENCE_DATA=DATA python benchmarks/text.py rows.jsonl --recipes bag --parts dev  # choosing: STS-B dev only

    VERGENCE_DATA=DATA python benchmarks/text.py rows.jsonl --passes 1 --parts sts     # the bag of docs/text.md

``DATA/text`` holds books_sentences.tsv.gz (book TAB sentence), stsb, sts12_16_test, mr, cr, subj, trec (.tsv.gz).
Recipes were chosen on STS-B dev; STS-B test, STS12-16 and SentEval are reported for the chosen ones.
"""

import argparse
import json
import os
import time
from pathlib import Path

import numpy as np
import torch

import vergence
from vergence.data import lines
from vergence.data.lines import lines_of
from vergence.data.pairs import scored
from vergence.data.text import TextHeader
from vergence.evaluation.sentences import classification, sts
from vergence.evaluation.words import WordCounts
from vergence.learning import loop, optimizers
from vergence.runs import assembly

TEXT = Path(os.environ.get("VERGENCE_DATA", "data")) / "text"
CLASSES = ("mr", "cr", "subj", "trec")
NEXT = f"text:{TEXT}/books_sentences.tsv.gz,pairs=next"
ALIGN = {"method": "align_uniform", "heads": {"projector": ()}}
HALF = {"align_weight": 0.5, "uniform_weight": 0.5, "t": 5.0}
RECIPES = {
    # Of 4,096, 8,192, 16,384 and 32,768 tokens the fewest had the best TF-IDF on STS-B dev (78.3, 78.0, 77.1, 75.6, by
    # every third sentence of the books): endings become tokens of their own. A rate of .02 gave less than .005 there
    # (77.8, 78.0).
    "bag": {
        **ALIGN, "encoder": "bag", "objective": HALF, "optim": {"learning_rate": 5e-3, "warmup": 0.1},
        "data": f"{NEXT},vocabulary=4096", "backbone": {"width": 1024},
    },
    "bag as prescribed": {**ALIGN, "encoder": "bag", "objective": HALF, "optim": {"learning_rate": 5e-3}},
    "gru align + uniform": {
        "method": "quick_thought", "objective": {"name": "align_uniform", **HALF}, "encoder": "bigru",
        "backbone": {"pooling": "last", "hidden": 128, "embedding": 128, "weighted": True, "std": 0.1},
    },
    "gru contrastive": {
        "method": "quick_thought", "objective": {"temperature": 0.075}, "encoder": "bigru",
        "backbone": {"pooling": "last", "hidden": 128, "embedding": 128, "weighted": True, "std": 0.1},
    },
    "gru align .9 + uniform .1": {
        "method": "quick_thought",
        "objective": {"name": "align_uniform", "align_weight": 0.9, "uniform_weight": 0.1, "t": 5.0},
        "encoder": "bigru",
        "backbone": {"pooling": "last", "hidden": 128, "embedding": 128, "weighted": True, "std": 0.1},
    },
    "transformer, dropout": {"method": "simcse", "encoder": "transformer"},
}  # fmt: skip


def embeddings(model, texts):
    """Embeddings of texts, in chunks sorted by length."""
    order = np.argsort([len(text) for text in texts], kind="stable")
    h = np.concatenate([model.encode([texts[i] for i in order[s : s + 512]]) for s in range(0, len(texts), 512)])
    made = np.empty_like(h)
    made[order] = h
    return made


def judged(encode, parts):
    """Scores x 100 by name: STS-B dev alone, or everything that is reported."""
    found = {}
    for name, file, part in (
        ("STS-B dev", "stsb", "dev"),
        ("STS-B test", "stsb", "test"),
        ("STS12-16", "sts12_16_test", "all"),
    ):
        if parts == "dev" and name != "STS-B dev":
            continue
        pairs = scored(f"{TEXT}/{file}.tsv.gz", part=part)
        rows = sts(encode(pairs.first), encode(pairs.second), pairs.scores, sets=pairs.sets)
        found[name] = 100 * [row for row in rows if row.name == "Spearman"][-1].value
    for name in CLASSES if parts == "all" else ():
        rows = lines.read(f"{TEXT}/{name}.tsv.gz", TextHeader())
        (row,) = classification(encode(rows.texts["text"]), rows.cells["label"], parts=rows.cells.get("split"))
        found[name.upper()] = 100 * row.value
    return found


def baselines(parts):
    """What needs no training: TF-IDF of the books, and averaged random vectors."""
    books = [line.split("\t")[1] for _, _, line in lines_of(TEXT / "books_sentences.tsv.gz")]
    counts = WordCounts.of(books)
    vectors = np.random.default_rng(0).standard_normal((32768, 256)).astype(np.float32)
    plain = WordCounts(np.zeros_like(counts.counts), 1)
    return {
        "TF-IDF of the books": judged(counts.rows, parts),
        "averaged random vectors": judged(lambda texts: plain.rows(texts) @ vectors, parts),
    }


def trained(name, seed, *, minutes, passes, batch, limit, overrides):
    """A run of a recipe for so many passes, or about so many minutes of one core, measured on its own first steps."""
    recipe = {**RECIPES[name]}
    for key, value in overrides.items():
        recipe[key] = {**recipe.get(key, {}), **value} if isinstance(value, dict) else value
    options = {
        "data": NEXT,
        "batch": batch,
        "seed": seed,
        "limit": limit,
        "track": (),
        "watching": {"every": 0},
        **recipe,
    }
    begun = time.process_time()
    parts = assembly.assemble(vergence.config.given(**options, epochs=1))
    loaded = time.process_time() - begun
    epochs = passes or max(1, round((60 * minutes - loaded) / pass_seconds(parts, batch)))
    config = vergence.config.given(**options, epochs=epochs)
    parts = assembly.assemble(config, parts.samples)
    optimizer = optimizers.optimizer(parts.learner, parts.config.optim)
    begun = time.process_time()
    *_, step = loop.fit(parts.learner, optimizer, parts.samples, parts.recipe, parts.config)
    spent = time.process_time() - begun
    print(
        f"  {name}, seed {seed}: {epochs} epochs, loss {step.loss:.3f}, {spent:.0f} CPU-s, {loaded:.0f} to load",
        flush=True,
    )
    return Model(parts), {"epochs": epochs, "seconds": spent + loaded, "sentences/s": 2 * step.number * batch / spent}


def pass_seconds(parts, batch, steps=30):
    """Processor seconds of a pass over the data, from its first steps."""
    optimizer = optimizers.optimizer(parts.learner, parts.config.optim)
    begun = time.process_time()
    fit = loop.fit(parts.learner, optimizer, parts.samples, parts.recipe, parts.config)
    for _ in zip(range(steps), fit, strict=False):
        pass
    return (time.process_time() - begun) / steps * loop.steps_per_epoch(len(parts.samples), batch)


class Model:
    """A trained encoder with its tokenizer."""

    def __init__(self, parts):
        self.parts = parts

    @torch.no_grad()
    def encode(self, texts):
        from vergence.data.ragged import Ragged

        rows = Ragged.of(texts, self.parts.samples.tokens, self.parts.samples.shape[0])
        return self.parts.learner.encoder.eval()(rows[torch.arange(len(texts))]).numpy()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path, help="where rows of results are added, JSON by lines")
    parser.add_argument("--recipes", nargs="+", default=["bag"])
    parser.add_argument("--minutes", type=float, nargs="+", default=[5.0])
    parser.add_argument("--passes", type=int, default=0, help="passes over the data, in place of minutes")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--parts", choices=("dev", "sts", "all"), default="all")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--limit", type=int, default=0)
    parser.add_argument("--set", default="{}", help="settings in place of the recipe's, as JSON")
    arguments = parser.parse_args()
    for name, found in baselines(arguments.parts).items():
        print(name, {key: round(value, 1) for key, value in found.items()}, flush=True)
    options = {key: getattr(arguments, key) for key in ("batch", "limit", "passes")}
    options["overrides"] = json.loads(arguments.set)
    for name in arguments.recipes:
        for minutes in arguments.minutes:
            for seed in arguments.seeds:
                model, facts = trained(name, seed, minutes=minutes, **options)
                found = judged(lambda texts, model=model: embeddings(model, texts), arguments.parts)
                row = {"recipe": name, "minutes": minutes, "seed": seed, **facts, **found, "set": arguments.set}
                print(row, flush=True)
                with arguments.rows.open("a") as file:
                    file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()

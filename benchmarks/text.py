"""Sentences from scratch: STS, SentEval and speed of every recipe, before and after training, beside TF-IDF.

    VERGENCE_DATA=DATA python benchmarks/text.py rows.jsonl --minutes 5 --seeds 0 1 2  # the table
    VERGENCE_DATA=DATA python benchmarks/text.py rows.jsonl --recipes bag --parts dev  # choosing: STS-B dev, MPQA

    VERGENCE_DATA=DATA python benchmarks/text.py rows.jsonl --passes 1 --share 4       # the bag of docs/text.md

``DATA/text`` holds books_sentences.tsv.gz (book TAB sentence), stsb, sts12_16_test, mpqa, mr, cr, subj, trec (.tsv.gz).
Recipes were chosen on STS-B dev and MPQA; STS-B test, STS12-16, MR, CR, SUBJ and TREC are reported for the chosen ones.
"""

import argparse
import copy
import itertools
import json
import os
import tempfile
import time
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

import vergence
from vergence.data import lines
from vergence.data.lines import lines_of
from vergence.data.pairs import scored
from vergence.data.text import TextHeader
from vergence.evaluation.sentences import classification, cosine, sts
from vergence.evaluation.words import WordCounts
from vergence.learning import loop, optimizers
from vergence.runs import assembly
from vergence.runs.sentences import Reader, beside

TEXT = Path(os.environ.get("VERGENCE_DATA", "data")) / "text"
SETS = {  # STS and SentEval by what they serve, and the folds of those without a split (SentEval's ten take long)
    "dev": (("STS-B dev",), ("mpqa",), 5),
    "sts": (("STS-B dev", "STS-B test", "STS12-16"), (), 5),
    "all": (("STS-B dev", "STS-B test", "STS12-16"), ("mr", "cr", "subj", "trec"), 5),
    "paper": (("STS-B test",), ("mr", "cr"), 10),
    "growth": (("STS-B dev", "STS-B test", "STS12-16"), ("mr",), 5),
}
SCORED = {"STS-B dev": ("stsb", "dev"), "STS-B test": ("stsb", "test"), "STS12-16": ("sts12_16_test", "all")}
BOOKS = TEXT / "books_sentences.tsv.gz"
NEXT = f"text:{BOOKS},pairs=next"
STRETCH = 500  # consecutive sentences that a share of the books is made of
ALIGN = {"method": "align_uniform", "heads": {"projector": ()}}
HALF = {"align_weight": 0.5, "uniform_weight": 0.5, "t": 5.0}
RECIPES = {
    # Of 4,096, 8,192, 16,384 and 32,768 tokens the fewest had the best TF-IDF on STS-B dev (78.3, 78.0, 77.1, 75.6, by
    # every third sentence of the books): endings become tokens of their own. A rate of .02 gave less than .005 there
    # (77.8, 78.0). The plain mean beside the weighted one (0, 1, 4) gave 77.0, 76.9, 76.0 there and 75.9, 79.2, 79.5 on
    # MPQA, by a quarter of the books and 256 columns. With the plain mean twice and tokens once, rates of .001 and .005
    # gave 77.0 and 77.4 on STS-B dev, 81.4 and 81.5 on MPQA, by a quarter of the books.
    "bag": {
        **ALIGN, "encoder": "bag", "objective": HALF, "optim": {"learning_rate": 5e-3, "warmup": 0.1},
        "data": f"{NEXT},vocabulary=4096",
        "backbone": {"width": 512, "plain": 3.0, "once": True, "common": 1536, "opening": 256},
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


def judged(encode, parts):
    """Scores x 100 by name, on the sets that ``parts`` names."""
    found, (scores, classes, folds) = {}, SETS[parts]
    for name in scores:
        file, part = SCORED[name]
        pairs = scored(f"{TEXT}/{file}.tsv.gz", part=part)
        rows = sts(encode(pairs.first), encode(pairs.second), pairs.scores, sets=pairs.sets)
        found[name] = 100 * [row for row in rows if row.name == "Spearman"][-1].value
    for name in classes:
        rows = lines.read(f"{TEXT}/{name}.tsv.gz", TextHeader())
        texts, split = list(rows.texts["text"]), rows.cells.get("split")
        (row,) = classification(encode(texts), rows.cells["label"], parts=split, folds=folds)
        found[name.upper()] = 100 * row.value
    return found


def gained(after, before, parts, resamples=500):
    """What training gave on STS x 100, with its 95 % interval: pairs drawn again within each set, for both alike."""
    found, draw = {}, np.random.default_rng(0)
    for name in SETS[parts][0]:
        file, part = SCORED[name]
        pairs = scored(f"{TEXT}/{file}.tsv.gz", part=part)
        cosines = [cosine(encode(pairs.first), encode(pairs.second)) for encode in (before, after)]
        places = [np.flatnonzero(pairs.sets == each) for each in np.unique(pairs.sets)]
        again = [[draw.choice(own, len(own)) for own in places] for _ in range(resamples)]
        moved = [_moved(*cosines, pairs.scores, each) for each in (places, *again)]
        found[name] = [round(value, 2) for value in (moved[0], *np.percentile(moved[1:], [2.5, 97.5]))]
    return found


def _moved(before, after, scores, places):
    """The difference of two rank correlations, averaged over sets."""
    each = [spearmanr(after[i], scores[i]).statistic - spearmanr(before[i], scores[i]).statistic for i in places]
    return 100 * float(np.mean(each))


def baselines(parts):
    """What needs no training: TF-IDF of the books, and averaged random vectors."""
    books = [line.split("\t")[1] for _, _, line in lines_of(BOOKS)]
    counts = WordCounts.of(books)
    vectors = np.random.default_rng(0).standard_normal((32768, 256)).astype(np.float32)
    plain = WordCounts(np.zeros_like(counts.counts), 1)
    return {
        "TF-IDF of the books": judged(counts.rows, parts),
        "averaged random vectors": judged(lambda texts: plain.rows(texts) @ vectors, parts),
    }


def part_of_the_books(share, folder):
    """Every so many-th stretch of the books as a file, each stretch a document of its own."""
    kept = [f"{i // STRETCH}-{line}" for i, (_, _, line) in enumerate(lines_of(BOOKS)) if i // STRETCH % share == 0]
    (folder / "books.tsv").write_text("\n".join(kept) + "\n")
    return folder / "books.tsv"


def trained(name, seed, *, minutes, passes, batch, limit, overrides, books=BOOKS):
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
    options["data"] = options["data"].replace(str(BOOKS), str(books))
    begun = time.process_time()
    parts = assembly.assemble(vergence.config.given(**options, epochs=1))
    loaded = time.process_time() - begun
    epochs = passes or max(1, round((60 * minutes - loaded) / pass_seconds(parts, batch)))
    config = vergence.config.given(**options, epochs=epochs)
    parts = assembly.assemble(config, parts.samples)
    before = copy.deepcopy(parts.learner.encoder)
    optimizer = optimizers.optimizer(parts.learner, parts.config.optim)
    begun = time.process_time()
    *_, step = loop.fit(parts.learner, optimizer, parts.samples, parts.recipe, parts.config)
    spent = time.process_time() - begun
    facts = {"epochs": epochs, "loss": step.loss, "seconds": spent, "loading": loaded}
    facts["sentences/s"] = 2 * step.number * batch / spent
    tokens, length = parts.samples.tokens, parts.samples.shape[0]
    after = parts.learner.encoder
    encoders = {"trained": Reader(after, tokens, length), "untrained": Reader(before, tokens, length)}
    return {**encoders, **beside(after, tokens, length)}, facts


def pass_seconds(parts, batch, steps=30):
    """Processor seconds of a pass over the data, from its first steps."""
    optimizer = optimizers.optimizer(parts.learner, parts.config.optim)
    begun = time.process_time()
    fit = loop.fit(parts.learner, optimizer, parts.samples, parts.recipe, parts.config)
    for _ in zip(range(steps), fit, strict=False):
        pass
    return (time.process_time() - begun) / steps * loop.steps_per_epoch(len(parts.samples), batch)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path, help="where rows of results are added, JSON by lines")
    parser.add_argument("--recipes", nargs="+", default=["bag"])
    parser.add_argument("--minutes", type=float, nargs="+", default=[5.0])
    parser.add_argument("--passes", type=int, default=0, help="passes over the data, in place of minutes")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--parts", choices=SETS, default="all")
    parser.add_argument("--features", nargs="+", help="of trained, untrained and averages; all unless named")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--limit", type=int, default=0)
    parser.add_argument("--share", type=int, default=1, help="4 trains on every fourth stretch of 500 sentences")
    parser.add_argument("--alone", action="store_true", help="leave out the rows that need no training")
    parser.add_argument("--set", nargs="+", default=["{}"], help="settings in place of the recipe's, as JSON, in turn")
    arguments = parser.parse_args()
    if not arguments.alone:
        for name, found in baselines(arguments.parts).items():
            written(arguments.rows, {"recipe": name, **found})
    options = {key: getattr(arguments, key) for key in ("batch", "limit", "passes")}
    folder = tempfile.TemporaryDirectory()
    options["books"] = BOOKS if arguments.share == 1 else part_of_the_books(arguments.share, Path(folder.name))
    turns = itertools.product(arguments.recipes, arguments.minutes, arguments.set, arguments.seeds)
    for name, minutes, settings, seed in turns:
        encoders, facts = trained(name, seed, minutes=minutes, overrides=json.loads(settings), **options)
        for features in arguments.features or encoders:
            row = {"recipe": name, "features": features, "minutes": minutes, "seed": seed, "set": settings}
            written(arguments.rows, {**row, **facts, **judged(encoders[features], arguments.parts)})
        change = gained(encoders["trained"], encoders["untrained"], arguments.parts)
        written(arguments.rows, {**row, "features": "trained - untrained", **change})


def written(path, row):
    """A row is printed and kept as soon as it is known."""
    rounded = {key: round(value, 3) if isinstance(value, float) else value for key, value in row.items()}
    print(json.dumps(rounded), flush=True)
    with path.open("a") as file:
        file.write(json.dumps(rounded) + "\n")


if __name__ == "__main__":
    main()

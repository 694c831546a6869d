"""``vergence mine``: hard negatives for pairs of texts, from an encoder that was trained before."""

from pathlib import Path
from typing import Any

import numpy as np

from vergence.data.pairs import Scored, scored
from vergence.evaluation.mining import Mined, mined
from vergence.runs import sentences
from vergence.runs.progress import Progress
from vergence.runs.results import Answer
from vergence.runs.run import file_to_write, write_bytes

EXAMPLES = 3  # pairs whose negatives are shown


def mine(
    model: Path,
    data: str,
    *,
    output: Path = Path("mined.tsv"),
    negatives: int = 1,
    margin: float = 0.05,
    skip: int = 0,
    deepest: int = 100,
    seed: int = 0,
) -> Answer:
    """Write each pair of texts with the most similar texts that are not its positive, as hard negatives to train on.

    ``model`` is a run on texts or a folder of sentence-transformers; ``data`` is pairs:FILE (of scored ones
    ``above=4``). A candidate counts if its cosine with the anchor is at least ``margin`` below the positive's, among
    the ``deepest`` nearest without the first ``skip``. How many of those are not negatives at all is estimated.
    """
    output = file_to_write(output)
    pairs = _pairs(data)
    encode = sentences.reader_of(model)
    with Progress(2, quiet=False) as bar:
        bar.say(f"embedding {2 * len(pairs.first):,} texts")
        queries, documents, own = _embedded(pairs, encode)
        bar.say("looking for the nearest texts that are not positives")
        choices: dict[str, Any] = {"count": negatives, "margin": margin, "skip": skip, "deepest": deepest, "seed": seed}
        found = mined(queries, documents[0], own, **choices)
    _write(output, pairs, documents[1], found, negatives)
    return Answer(tuple(_told(pairs, documents[1], found, output, negatives)), {**found.to_dict(), "path": str(output)})


def _pairs(data: str) -> Scored:
    name, path, options = sentences.source_parts(data)
    if name != "pairs":
        raise ValueError(f"{data!r}: hard negatives are mined for pairs, pairs:FILE.tsv.")
    found = scored(path, **{"part": "train", **options})
    if found.scores is not None:
        raise ValueError(f"{path} has scores: say which pairs are positives, as in pairs:{path},above=4.")
    return found


def _embedded(pairs: Scored, encode: sentences.Encode) -> tuple[np.ndarray, tuple[np.ndarray, list[str]], np.ndarray]:
    """Anchors, the different texts, and which of those are no negatives of each anchor: first its own positive."""
    known = {text: number for number, text in enumerate(dict.fromkeys([*pairs.second, *pairs.first]))}
    texts = list(known)
    return encode(pairs.first), (encode(texts), texts), _not_negatives(pairs, known)


def _not_negatives(pairs: Scored, known: dict[str, int]) -> np.ndarray:
    """The places of each anchor's positive, of itself, and of whatever it is paired with elsewhere in the file."""
    partners: dict[str, set[int]] = {text: {place} for text, place in known.items()}
    for first, second in zip(pairs.first, pairs.second, strict=True):
        partners[first].add(known[second])
        partners[second].add(known[first])
    widest = max(map(len, partners.values()))
    rows = []
    for first, second in zip(pairs.first, pairs.second, strict=True):
        others = sorted(partners[first] - {known[second]})
        rows.append([known[second], *others, *[known[second]] * (widest - 1 - len(others))])
    return np.array(rows)


def _write(path: Path, pairs: Scored, texts: list[str], found: Mined, count: int) -> None:
    names = ["anchor", "positive", *(f"negative_{number}" for number in range(1, count + 1))]
    lines = ["\t".join(names)]
    for row, places in zip(found.kept.tolist(), found.negatives.tolist(), strict=True):
        lines.append("\t".join([pairs.first[row], pairs.second[row], *(texts[place] for place in places)]))
    write_bytes(path, ("\n".join(lines) + "\n").encode())


def _told(pairs: Scored, texts: list[str], found: Mined, output: Path, count: int) -> list[str]:
    low, high = found.interval
    lines = [
        f"{len(found.kept):,} of {len(pairs.first):,} pairs, {count} hard negative{'s' * (count > 1)} each: {output}",
        f"Mean cosine: positives {found.positive:.3f}, hard negatives {found.hard:.3f}, random {found.random:.3f}.",
        f"Estimated share of false negatives: {found.false_share:.1%} [{low:.1%}, {high:.1%}]. {found.reason}",
    ]
    for row, places in zip(found.kept.tolist()[:EXAMPLES], found.negatives.tolist(), strict=False):
        lines.append(f"  {pairs.first[row][:80]} | + {pairs.second[row][:80]} | - {texts[places[0]][:80]}")
    return lines

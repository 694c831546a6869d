"""Faults of embeddings of texts: one direction in all of them, and neighbors by length or by common words.

``words`` has a row for each text: the logarithm of its number of words, and the mean rarity (idf) of them;
then, the same in all rows, the logarithm of how many different words there are.
"""

import torch
from torch import Tensor

from vergence.counters import drawn
from vergence.diagnostics.arrays import Array, rows_at
from vergence.diagnostics.estimate import Estimate
from vergence.diagnostics.faults.learning import COINCIDE
from vergence.diagnostics.findings import Finding, fault
from vergence.diagnostics.measures import shown

SAMPLE = 2000  # texts that are compared with each other
NEAREST = 10  # neighbors whose lengths and rarities are averaged
# Random pairs of texts have a mean cosine of .02 to .1 under encoders that are in use (all-MiniLM-L6-v2), and of .5 to
# .9 under language models that were not trained for sentences (Ethayarajh 2019, Fig. 1). In between we take the middle.
ANISOTROPIC = 0.3
# all-MiniLM-L6-v2, which is sound, has .62 (length) and .85 (rarity) on the texts of STS-B test, where paraphrases lie
# beside each other: what is more is noted, and costs nothing that could be measured without labels.
BIASED = 0.9


@shown("geometry", title="mean cosine of texts")
def mean_cosine(h: Array, words: Tensor, seed: int = 0) -> Estimate:
    """The mean cosine of two different texts: near 0 when directions are used evenly, near 1 when all share one.

    References:
        Ethayarajh (2019), Sec. 3.2. https://arxiv.org/abs/1909.00512
    """
    unit, n = _unit(h, words, seed)[0], min(len(words), SAMPLE)
    cosines = (unit @ unit.T).fill_diagonal_(0).sum(1) / (n - 1)
    mean = float(cosines.mean())
    half = 1.96 * 2 * float(cosines.std()) / n**0.5  # of a mean over pairs (Hoeffding 1948)
    return Estimate(mean, mean - half, mean + half, n, "U-statistic")


@shown("geometry", title="length bias")
def length_bias(h: Array, words: Tensor, seed: int = 0) -> float:
    """Rank correlation of a text's number of words with that of its 10 nearest: 0 when length does not matter."""
    return _agreement(h, words, 0, seed)


@shown("geometry", title="frequency bias")
def frequency_bias(h: Array, words: Tensor, seed: int = 0) -> float:
    """Rank correlation of the mean rarity of a text's words with that of its 10 nearest texts.

    Topics share rare words, so some of it is right; near 1 the embedding tells common words from rare ones and little
    else.
    """
    return _agreement(h, words, 1, seed)


@fault("rows", order=95)
def anisotropy(h: Array, words: Tensor, seed: int = 0) -> Finding | None:
    """Texts that all point one way: cosines are high for any two, and their differences are what counts."""
    found = mean_cosine(h, words, seed)
    if found.value < ANISOTROPIC:
        return None
    if found.value > 1 - COINCIDE and not _differences_mean_something(h, words, seed):
        sentence = f"Texts coincide (mean cosine {found.value:.4f}), and their differences say nothing of their words."
        advice = "These rows hold no information: look for the step that made them equal."
        return Finding("complete collapse", "rows", sentence, "mean_cosine", advice)
    sentence = f"Any two texts have a mean cosine of {found.value:.2f}: all share one direction (anisotropy)."
    advice = "Subtract the mean row before comparing cosines, or train with more uniformity."
    return Finding("anisotropy", "rows", sentence, "mean_cosine", advice, remedy="center")


@fault("rows", order=96)
def by_length(h: Array, words: Tensor, seed: int = 0) -> Finding | None:
    """Neighbors by length: a short text is near short texts, whatever they say."""
    agreement = _agreement(h, words, 0, seed)
    if agreement < BIASED:
        return None
    sentence = f"A text's neighbors are as long as it is (rank correlation {agreement:.2f})."
    advice = "Average over tokens instead of adding, and normalize."
    return Finding("length bias", "rows", sentence, "length_bias", advice, level="note")


@fault("rows", order=97)
def by_frequency(h: Array, words: Tensor, seed: int = 0) -> Finding | None:
    """Neighbors by how common their words are, not by which words they are."""
    agreement = _agreement(h, words, 1, seed)
    if agreement < BIASED:
        return None
    sentence = f"A text's neighbors have words as common as its own (rank correlation {agreement:.2f})."
    advice = "Weight tokens by their rarity (idf)."
    return Finding("frequency bias", "rows", sentence, "frequency_bias", advice, level="note")


def _differences_mean_something(h: Array, words: Tensor, seed: int) -> bool:
    """Whether neighbors around the mean direction agree in length or rarity of words: with a constant, not in noise."""
    unit, known = _unit(h, words, seed)
    agreements = [_agreement(unit - unit.mean(0), known, column, seed) for column in (0, 1)]
    return max(agreements) > 4 / len(unit) ** 0.5  # four deviations of a rank correlation that is 0


def _unit(h: Array, words: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    places = drawn(len(words), SAMPLE, seed=seed)
    some = rows_at(h, places.numpy()).float()
    return torch.nn.functional.normalize(some, dim=1), words[places]


def _agreement(h: Array, words: Tensor, column: int, seed: int) -> float:
    unit, known = _unit(h, words, seed)
    near = (unit @ unit.T).fill_diagonal_(-2).topk(min(NEAREST, len(unit) - 1), dim=1).indices
    own = known[:, column]
    pair = torch.stack([_ranked(own), _ranked(own[near].mean(1))])
    return 0.0 if float(pair.std(1).min()) == 0 else float(torch.corrcoef(pair)[0, 1])


def _ranked(values: Tensor) -> Tensor:
    """Ranks, those of equals averaged."""
    _, place, count = values.unique(return_inverse=True, return_counts=True)
    return (count.cumsum(0) - (count - 1) / 2).float()[place]

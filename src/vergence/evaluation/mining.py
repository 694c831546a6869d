"""Hard negatives: the nearest texts that are not the positive, and how many of them are not negatives after all."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from vergence.counters import drawn
from vergence.evaluation.sentences import unit

TILE = 512  # anchors whose cosines are in memory at once
NULLS = 64  # random texts of each anchor that say how cosines of unrelated texts are spread


@dataclass(frozen=True, eq=False)
class Mined:
    """Which pairs have enough negatives (``kept``), their places among the texts, and what is known of them."""

    kept: np.ndarray
    negatives: np.ndarray
    positive: float
    hard: float
    random: float
    false_share: float
    interval: tuple[float, float]
    reason: str

    def to_dict(self) -> dict[str, Any]:
        numbers = {key: value for key, value in asdict(self).items() if key not in ("kept", "negatives")}
        return {**numbers, "pairs": len(self.kept), "rows": self.kept.tolist()}


def mined(
    queries: np.ndarray,
    documents: np.ndarray,
    own: np.ndarray,
    *,
    count: int = 1,
    margin: float = 0.05,
    skip: int = 0,
    deepest: int = 100,
    seed: int = 0,
) -> Mined:
    r"""The ``count`` documents nearest to each query whose cosine is at least ``margin`` below the positive's.

    ``own`` holds the places of each query's positives, and of itself, which are never negatives; the first column is
    the positive. The share p of **false negatives** among the chosen is estimated from how many are nearer than the
    lower quartile of positives, which related texts are in three of four cases: :math:`P = \tfrac34 p + (1 - p) P_0`.

    A margin hides false negatives near the positive by removing them: the estimate is of those that stay.

    References:
        Qu et al. (2021), RocketQA, Sec. 4.2, found 70 % of top-ranked passages to be positives. arXiv:2010.08191
    """
    if count < 1 or deepest < count + skip:
        raise ValueError(f"deepest ({deepest}) must hold skip ({skip}) and at least 1 negative, got {count}.")
    queries, documents = unit(queries), unit(documents)
    depth = min(deepest + own.shape[1], len(documents))
    chosen, rows, cosines, positives = [], [], [], []
    for start in range(0, len(queries), TILE):
        part = own[start : start + TILE]
        scores = torch.from_numpy(queries[start : start + TILE] @ documents.T)
        right = scores.gather(1, torch.from_numpy(part[:, :1]))
        scores.scatter_(1, torch.from_numpy(part), -2.0)
        best = scores.topk(depth, dim=1)
        usable = (best.values <= right - margin) & (best.values > -2)
        usable[:, :skip] = False
        for row in range(len(part)):
            places = usable[row].nonzero()[:count, 0]
            positives.append(float(right[row]))
            if len(places) == count:
                rows.append(start + row)
                chosen.append(best.indices[row, places].numpy())
                cosines.append(best.values[row, places].numpy())
    if not rows:
        raise ValueError(
            f"No pair has {count} texts at least {margin:g} below its positive among the {deepest} nearest: lower the "
            "margin, or look deeper."
        )
    return _with_estimate(queries, documents, np.array(rows), np.stack(chosen), np.stack(cosines), positives, seed)


def _with_estimate(
    queries: np.ndarray, documents: np.ndarray, rows: np.ndarray, chosen: np.ndarray, cosines: np.ndarray,
    positives: list[float], seed: int,
) -> Mined:  # fmt: skip
    """What is known of the chosen, and the share of false negatives among them."""
    quartile = float(np.quantile(positives, 0.25))
    places = drawn(len(documents), NULLS, seed=seed).numpy()
    nulls = queries[rows] @ documents[places].T
    passed, unrelated = float((cosines > quartile).mean()), float((nulls > quartile).mean())
    share = float(np.clip((passed - unrelated) / max(0.75 - unrelated, 1e-6), 0, 1))
    half = 1.96 * np.sqrt(max(passed * (1 - passed), 1e-12) / cosines.size) / max(0.75 - unrelated, 1e-6)
    interval = float(max(0.0, share - half)), float(min(1.0, share + half))
    told = (
        f"{passed:.1%} of the chosen are nearer than the lower quartile of positives, {quartile:.2f}; related texts "
        f"are in 75 % of cases, random ones in {unrelated:.1%}. Raise --margin or --skip if that is too many."
    )
    means = float(np.mean(positives)), float(cosines.mean()), float(nulls.mean())
    return Mined(rows, chosen, *means, share, interval, told)

"""What training changed of a run that started from weights, read from its files."""

import torch
from torch import Tensor

from vergence import features
from vergence.config import Config
from vergence.evaluation.change import Side, changes, summary
from vergence.runs import results, starting
from vergence.runs.accuracies import judgeable
from vergence.runs.results import record
from vergence.runs.run import Run


def since_the_start(run: Run, train: features.Features, test: features.Features) -> results.Changes | None:
    """Every measurement before and after training, where the run started from weights; None where it did not."""
    file, facts = run.path / starting.FEATURES, run.read_json(starting.FILE)
    if not file.exists() or facts is None:
        return None
    stored, now = features.stored(file), features.stored(run.path / "features.safetensors")
    (known, seen), (kept, left) = (
        _common(stored[f"{split}_rows"], made.rows) for split, made in (("train", train), ("test", test))
    )
    before = Side(stored["train_h"][known], stored["test_h"][kept], stored["test_views"])
    after = Side(train.h[seen], test.h[left], now["test_views"])
    labels = (train.labels[seen], test.labels[left]) if judgeable(train, test) else (None, None)  # type: ignore[index]
    found = list(changes(before, after, *labels))
    label, sentence = summary(found)
    words = {"source": facts["source"], "taken": facts["sentence"], "inputs": facts["inputs"]}
    rows = tuple(record(results.Change, change.to_dict()) for change in found)
    sentence += _remedy(run.config) if label in ("worse", "mixed") else ""
    return results.Changes(label, sentence, **words, misfits=tuple(facts["words"]), rows=rows)


def _remedy(config: Config) -> str:
    """What to try: statistics that stay, whose moving was the cause where published weights were spoiled; the rate."""
    rate = f"--optim.learning-rate {config.optim.rate / 4:.1g}"
    if config.starting.statistics == "follow":
        return f" Try --starting.statistics keep, which leaves its batch norms as they came, then {rate}."
    return f" Try {rate}, or fewer epochs."


def _common(before: Tensor, after: Tensor | None) -> tuple[Tensor, Tensor]:
    """Where the rows that both draws hold are in each of them; of shards the draws need not be the same."""
    rows = before if after is None else after  # None: every row, in order
    both = before[torch.isin(before, rows)]
    return torch.searchsorted(before, both), both if after is None else torch.searchsorted(rows, both)

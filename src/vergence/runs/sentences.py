"""Sentences: what an encoder of texts is worth on scored pairs, labels and retrieval, beside what needs no training.

``pairs:FILE`` with scores is STS, without scores retrieval; ``text:FILE`` with labels is SentEval's classification.
"""

import inspect
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from torch import Tensor, nn

from vergence import views
from vergence.config import Config
from vergence.counters import drawn
from vergence.data import Samples, lines, parts
from vergence.data.pairs import Scored, scored
from vergence.data.ragged import Ragged
from vergence.data.text import TextHeader
from vergence.data.tokens import Tokens
from vergence.encoders.text_bag import OwnColumns, TokenVectors
from vergence.evaluation.sentences import Measure, classification, retrieval, sts
from vergence.evaluation.words import WordCounts
from vergence.objectives import alignment, uniformity
from vergence.runs import assembly
from vergence.runs.results import TRAINED, UNTRAINED, Judged
from vergence.runs.run import Run
from vergence.tables import UnknownName

AVERAGED, WORDS = "averaged word vectors", "TF-IDF"
CHUNK = 256  # texts encoded at once, of about one length
FOLDS = 5  # of data without a split: SentEval's ten take twice as long and say the same
LOOKED_AT = 20_000  # texts whose embeddings the doctor examines
FEWEST = 4  # scored pairs of a set: the interval of a correlation has n - 3 in it
CLOSE = 4.0  # the score from which on SimCSE calls a pair positive, of 5

Encode = Callable[[Sequence[str]], Any]


class Reader:
    """Texts in, embeddings out: an encoder with its tokenizer."""

    def __init__(self, encoder: nn.Module, tokens: Tokens, length: int):
        self.encoder, self.tokens, self.length = encoder.eval(), tokens, length

    @torch.no_grad()
    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        rows = Ragged.of(list(texts), self.tokens, self.length)
        order = rows.lengths.argsort(stable=True)
        device = next((weight.device for weight in self.encoder.parameters()), torch.device("cpu"))
        made = torch.cat([self.encoder(rows[part].to(device)).float().cpu() for part in order.split(CHUNK)])
        found = torch.empty_like(made)
        found[order] = made
        return found.numpy()


class Averaged(nn.Module):
    """The plain mean of an encoder's own token vectors: what it knows of words, without order and weights."""

    def __init__(self, vectors: Tensor, shift: int):
        super().__init__()
        self.vectors, self.shift = nn.Parameter(vectors.detach().clone(), requires_grad=False), shift
        self.width = vectors.shape[1]

    def forward(self, tokens: Tensor) -> Tensor:
        real = (tokens != 0)[..., None]
        return (self.vectors[(tokens - self.shift).clamp(min=0)] * real).sum(1) / real.sum(1).clamp(min=1)


def evaluated(
    sources: Sequence[str],
    encoders: Mapping[str, Encode],
    words: WordCounts | None,
    saying: Callable[[str], None] = lambda text: None,
) -> tuple[Judged, ...]:
    """Every source under every encoder and under TF-IDF; without ``words`` of a corpus, those of the source itself."""
    return tuple(row for source in sources for row in _judged(source, encoders, words, saying))


def of_run(run: Run, sources: Sequence[str], saying: Callable[[str], None] = lambda text: None) -> tuple[Judged, ...]:
    """The encoder of a run, before and after training, its word vectors alone, and TF-IDF of its corpus."""
    encoder, recipe, facts = assembly.trained_encoder(run)
    tokens = assembly.tokens_of(run)
    if facts["kind"] != "text" or tokens is None:
        raise ValueError(f"--evaluate is for runs on texts; {run.path} was trained on {facts['kind']} samples.")
    length = facts["shape"][-1]
    encoders: dict[str, Encode] = {TRAINED: Reader(encoder, tokens, length)}
    encoders |= beside(encoder, tokens, length)
    stored = _stored(run.path / "baselines.safetensors")
    if "token_counts" in stored:
        before = untrained(run.config, recipe, facts, stored)
        encoders[UNTRAINED] = Reader(before, tokens, length)
    words = None
    if "word_counts" in stored:
        words = WordCounts(stored["word_counts"].numpy(), int(stored["word_texts"]))
    return evaluated(sources, encoders, words, saying)


def beside(encoder: nn.Module, tokens: Tokens, length: int) -> dict[str, Encode]:
    """The average of the encoder's own token vectors, where it has a table of them."""
    model = getattr(encoder, "model", None)
    if model is not None and hasattr(model, "get_input_embeddings"):
        return {AVERAGED: Reader(Averaged(model.get_input_embeddings().weight, 1), tokens, length)}
    table = next((part for part in encoder.modules() if isinstance(part, nn.Embedding)), None)
    return (
        {}
        if table is None
        else {AVERAGED: Reader(Averaged(table.weight, getattr(encoder, "shift", 0)), tokens, length)}
    )


def untrained(config: Config, recipe: Any, facts: Mapping[str, Any], stored: Mapping[str, Tensor]) -> nn.Module:
    """The encoder of a run before its first step, from its seed and the counts of its tokens."""
    torch.manual_seed(config.seed)
    stand_in = Samples(torch.zeros(2, *facts["shape"], dtype=torch.int64), "text")
    made = assembly.whole_encoder(config, stand_in, recipe)
    for part in made.modules():
        if isinstance(part, TokenVectors | OwnColumns) and len(stored["token_counts"]) == part.vocabulary:
            part.measure(stored["token_counts"], int(stored["token_texts"]))
    return made


def counts_of(samples: Samples) -> dict[str, Tensor]:
    """What the rows beside a text result need of the corpus: in how many texts each word and each token occurs."""
    places = drawn(len(samples), 200_000)
    names: Any = samples.names
    texts = list(names.several(places.tolist())) if hasattr(names, "several") else [names[i] for i in places.tolist()]
    words = WordCounts.of(texts)
    found = {"word_counts": torch.from_numpy(words.counts.astype(np.int64)), "word_texts": torch.tensor(words.texts)}
    if hasattr(samples.x, "document_counts") and samples.tokens is not None:
        counts, count = samples.x.document_counts(samples.tokens.vocabulary)
        found |= {"token_counts": counts, "token_texts": torch.tensor(count)}
    return found


def word_facts(texts: Sequence[str], counts: WordCounts | None = None) -> Tensor:
    """For each text the logarithm of its number of words, and the mean rarity of them, in these texts or a corpus.

    Beside them, the same in all rows, the logarithm of how many different words these texts have.
    """
    counts = WordCounts.of(texts) if counts is None else counts
    weighted, plain = counts.rows(texts), WordCounts(np.zeros_like(counts.counts), 1).rows(texts)
    sizes = np.asarray((plain > 0).sum(axis=1)).ravel().clip(min=1)
    rarity = np.asarray(weighted.sum(axis=1)).ravel() / (np.asarray(plain.sum(axis=1)).ravel() / np.log(2)).clip(min=1)
    different = np.full(len(sizes), np.log(len(np.unique(plain.indices)) or 1))
    return torch.from_numpy(np.stack([np.log(sizes), rarity, different], 1).astype(np.float32))


def texts_for(data: Any, evaluate: Sequence[str]) -> tuple[list[str], Any]:
    """The texts whose embeddings are looked at, drawn evenly, and their labels: of the data, or those evaluated on."""
    if data is None and not evaluate:
        raise ValueError("A folder of a model has no texts: give --data text:FILE, or --evaluate pairs:FILE text:FILE.")
    texts: list[str] = []
    labels: Sequence[str] | None = None
    for source in [str(data)] if data is not None else evaluate:
        name, path, options = source_parts(source)
        if name == "pairs":
            found = scored(path, **options)
            texts += [*found.first, *found.second]
            continue
        options.pop("folds", None)
        rows = lines.read(path, TextHeader(**options))
        texts += list(rows.texts["text"])
        labels = rows.cells.get("label") if data is not None else None
    if labels is None:
        texts = list(dict.fromkeys(texts))  # a text that stands in several pairs is one text
    chosen = drawn(len(texts), LOOKED_AT).tolist()
    return [texts[i] for i in chosen], None if labels is None else np.array([labels[i] for i in chosen])


def check(sources: Sequence[str]) -> None:
    """Read the evaluation data, so that what is wrong with a file is said before training and not after it."""
    for source in sources:
        _read(source)


def _judged(
    source: str, encoders: Mapping[str, Encode], words: WordCounts | None, saying: Callable[[str], None]
) -> Iterator[Judged]:
    """One source under every encoder; the row of TF-IDF always beside them."""
    saying(f"{source} under {', '.join(encoders)} and {WORDS}")
    texts, measures = _read(source)
    counts = words if words is not None else WordCounts.of(texts)
    for features, encode in {**encoders, WORDS: counts.rows}.items():
        for row in measures(encode):
            yield Judged(features, source, row.name, row.set, row.value, row.low, row.high, row.n)


def _read(source: str) -> tuple[list[str], Callable[[Encode], Sequence[Measure]]]:
    """The texts of a source, and what an encoder is measured by on them."""
    name, path, options = source_parts(source)
    if name == "pairs":
        data = scored(path, **options)
        few = min(Counter(data.sets.tolist()).items(), key=lambda pair: pair[1], default=("all", 0))
        if few[1] < (1 if data.scores is None else FEWEST):
            least = f"a correlation with an interval takes {FEWEST}"
            raise ValueError(f"{path}: the set {few[0]} has {few[1]} pairs; {least}.")
        return [*data.first, *data.second], lambda encode: _of_pairs(data, encode)
    folds = options.pop("folds", FOLDS)
    rows = lines.read(path, TextHeader(**options))
    labels, texts = rows.cells.get("label"), list(rows.texts["text"])
    if labels is None:
        raise ValueError(f"{path} has no labels to classify: give label TAB text, or a column called label.")
    if len(set(labels)) < 2:
        raise ValueError(f"{path}: all texts have the label {labels[0]!r}; a classifier needs two classes.")
    split = rows.cells.get("split")
    return texts, lambda encode: classification(encode(texts), labels, parts=split, folds=folds)


def _of_pairs(data: Scored, encode: Encode) -> Sequence[Measure]:
    """Correlations with the scores, and where SimCSE's plane can be drawn alignment and uniformity; or retrieval."""
    if data.scores is None:
        known = {text: number for number, text in enumerate(dict.fromkeys(data.second))}
        documents = encode(list(known))
        dense = documents.toarray() if hasattr(documents, "toarray") else documents
        queries = encode(data.first)
        queries = queries.toarray() if hasattr(queries, "toarray") else queries
        return retrieval(queries, dense, relevant=np.array([known[text] for text in data.second]))
    first, second = encode(data.first), encode(data.second)
    rows = sts(first, second, data.scores, sets=data.sets.tolist())
    return [*rows, *plane(first, second, data.scores)]


def plane(first: Any, second: Any, scores: np.ndarray) -> list[Measure]:
    """Alignment of pairs scored 4 or more of 5, and uniformity of all texts: the plane of SimCSE's Fig. 3.

    References:
        Gao et al. (2021), Sec. 5. https://arxiv.org/abs/2104.08821
    """
    close = np.flatnonzero(scores >= CLOSE * max(1.0, scores.max()) / 5)
    if hasattr(first, "toarray") or len(close) < 2:
        return []
    whole = torch.from_numpy(np.concatenate([first, second]))
    some = whole[drawn(len(whole), 4096)]
    if not whole.any(1).all():
        return []
    one, two = (torch.from_numpy(side[close]) for side in (first, second))
    found = {"alignment": float(alignment(one, two)), "uniformity": float(uniformity(some))}
    return [
        Measure(name, value, value, value, len(close if name == "alignment" else some)) for name, value in found.items()
    ]


def source_parts(source: str) -> tuple[str, str, dict[str, Any]]:
    """A source of evaluation data in its parts, its options as numbers and words."""
    plain, *written = re.split(r",(?=[a-z_]+=)", source)
    name, path = parts(plain)
    known = {"pairs": (*inspect.signature(scored).parameters,)[1:], "text": ("column", "folds")}
    if name not in known or not path:
        raise ValueError(
            f"{source!r}: texts are evaluated on pairs:FILE (scored, or to be found) or text:FILE (labels)."
        )
    options: dict[str, Any] = dict(option.split("=", 1) for option in written)
    for key in options:
        if key not in known[name]:
            raise UnknownName(f"option of {name} for evaluation", key, known[name])
    for key, kind in (("above", float), ("folds", int)):
        if key in options:
            options[key] = kind(options[key])
    return name, path, options


def _stored(path: Path) -> dict[str, Tensor]:
    if not path.is_file():
        return {}
    with safe_open(path, framework="pt") as file:
        wanted = ("word_counts", "word_texts", "token_counts", "token_texts")
        return {name: file.get_tensor(name) for name in wanted if name in file.keys()}  # noqa: SIM118


def reader_of(model: str | Path) -> Reader:
    """The encoder of a run on texts, or of a folder of a pretrained model."""
    if is_model(model):
        return model_reader(model)[0]
    run = Run(model)
    encoder, _, facts = assembly.trained_encoder(run)
    tokens = assembly.tokens_of(run)
    if tokens is None:
        raise ValueError(f"{run.path} was trained on {facts['kind']} samples, not on texts.")
    return Reader(encoder, tokens, facts["shape"][-1])


# A folder of a pretrained model


def is_model(path: Any) -> bool:
    """Whether a path is a folder of sentence-transformers or of a Hugging Face model with its tokenizer."""
    if not isinstance(path, str | Path) or not Path(path).is_dir() or (Path(path) / "config.yaml").exists():
        return False
    here = Path(path)
    return (here / "modules.json").is_file() or all(
        (here / name).is_file() for name in ("config.json", "tokenizer.json")
    )


def model_reader(path: str | Path) -> tuple[Reader, Any]:
    """The reader of such a folder, and the plain recipe of texts."""
    from vergence.learning.sentence_models import read_folder

    encoder, tokens, length = read_folder(str(path))
    return Reader(encoder, tokens, length), views.build("text")

"""Assembly: a config becomes parts. What is left to ``auto`` is settled here, by the data, and recorded."""

import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, get_args

import torch
from torch import Tensor, nn

from vergence import config as configs
from vergence import data, encoders, features, tables, views
from vergence.config import Config
from vergence.counters import sample_keys, shuffled
from vergence.data import Samples
from vergence.data import tokens as tokenizers
from vergence.data.pairs import with_negatives
from vergence.data.samples import Kind, Sharded
from vergence.data.text import tokens_for
from vergence.data.tokens import Tokens
from vergence.encoders.text_bag import OwnColumns, TokenVectors
from vergence.learning import LEARNERS, Problem, collectives, loop
from vergence.learning.context import SideBySide
from vergence.learning.norm import share_statistics
from vergence.methods import METHODS, TWO_ENCODERS, Method, customized
from vergence.runs import compute, starting
from vergence.runs.run import Run

TEXTS = ("text", "pairs")  # sources of texts, which take a tokenizer
TWO_MODALITIES = ("captions", "columns", "halves")  # views whose two parts are not of one kind
LARGE = 64  # pixels: from here on a small convnet sees too little of the image
CROPPED = 16  # pixels: below, a local crop of a twentieth of the image has fewer than 4 x 4 of its own
CALIBRATION = 4096  # samples that set the mean and deviation of the inputs, and that tabular views draw from
DECODED = 1024  # as many of images in shards: a photo takes 3 ms to decode, and the first step waits for all of them


@dataclass(frozen=True)
class Assembled:
    """The parts of a run: the data, the views and the learner, on the device that will train it."""

    config: Config
    samples: Samples
    recipe: Any
    learner: Any
    start: starting.Start | None = None

    @cached_property
    def validation(self) -> Samples:
        """The part of the training data that is held out, for what is measured and chosen along training."""
        return load(self.config, "validation", tokens=self.samples.tokens)

    @cached_property
    def test(self) -> Samples:
        """The samples that are seen after training only."""
        return load(self.config, "test", tokens=self.samples.tokens)


def assemble(
    config: Config, samples: Samples | None = None, *, start: bool = True, tokens: Tokens | None = None
) -> Assembled:
    """Load the data, settle the config, and build views and weights from the seed, or from what it starts from.

    With ``start=False`` the starting weights are not read: those of a checkpoint will take their place. ``tokens`` is
    the tokenizer of a run that has one.
    """
    config = starting.settled(config)
    compute.prepare(config.compute)
    if samples is None:
        config = replace(config, data=data.understood(config.data))
        samples = load(config, "train", tokens=tokens)
    config = settle(config, samples)
    recipe = views.build(config.views, **config.view).fitted(samples.x[_some(samples)])
    torch.manual_seed(config.seed)
    learner: Any = build_learner(config, samples, recipe)
    begun = starting.begin(learner, config) if start else None
    if config.starting.freeze:
        starting.freeze(learner, config.starting.freeze)
    starting.hold_statistics(learner, config)
    learner = learner.to(device(config))
    if samples.kind == "image" and config.compute.channels_last:
        # Convolutions are 1.1 to 1.2 times as fast on processors.
        learner = learner.to(memory_format=torch.channels_last)
    if not METHODS[config.method].trains and begun is None:
        calibrate(learner.encoder, config, samples, recipe)
    if collectives.world() > 1:
        learner = share_statistics(learner)
    return Assembled(config, samples, recipe, learner, begun)


def load(config: Config, split: str, *, unread: bool = False, tokens: Tokens | None = None) -> Samples:
    """The samples a config names; a setting that also stands in the name of the data is said once, not twice.

    Texts are read with ``tokens``, or with the tokenizer that the encoder or the data name.
    """
    for name in ("limit", "size"):
        if getattr(config, name) and f",{name}=" in config.data:
            raise ValueError(f"{name} is given twice: {name} {getattr(config, name)}, and in the data {config.data!r}.")
    options: dict[str, Any] = {"limit": config.limit, "size": config.size, "validation": config.watching.held_out}
    source = config.data
    if data.parts(source.split(",")[0])[0] in TEXTS:
        source, options["tokens"] = tokenizer_of(config, tokens)
    given = {name: value for name, value in options.items() if value}
    return data.load(source, split=split, unread=unread, **given)


def tokenizer_of(config: Config, tokens: Tokens | None = None) -> tuple[str, "str | Tokens"]:
    """The data without its option ``tokens``, and what stands for it: a pretrained encoder has its own tokenizer."""
    plain, *written = re.split(r",tokens=([^,]*)", config.data)
    source, named = plain + "".join(written[1:]), written[0] if written else "auto"
    own = config.encoder if config.encoder.startswith("hf:") else ""
    if own and named not in ("auto", own):
        raise ValueError(
            f"tokens={named} does not belong to the model {own}, which reads the tokens of its own tokenizer. Leave "
            "tokens= out."
        )
    if tokens is None:
        tokens = starting.tokens_of(config.start)
        if tokens is not None and named != "auto" and _content(named) != tokens.content:
            raise ValueError(
                f"tokens={named} does not belong to the weights of {config.start}, whose vectors stand for tokens of "
                "another tokenizer, its own. Leave tokens= out."
            )
    if tokens is not None:
        return source, tokens
    if named == "auto":
        named = own or ("wordpiece" if tokenizers.available() else "word")
    return source, named


def _content(named: str) -> str:
    """The content of the tokenizer.json that an option names; "" where it names none."""
    return tokens_for(named, ()).content if named.endswith(".json") else ""


def tokens_of(run: Run) -> Tokens | None:
    """The tokenizer of a run: the one it stored, or the hashed tokens that its data name; None if it read no texts."""
    config = run.config
    if data.parts(config.data.split(",")[0])[0] not in TEXTS:
        return None
    stored = tokenizers.stored(run.path)
    if stored is not None:
        return stored
    written = data.settled(config.data, {})[2]
    return tokens_for(written.get("tokens", "word"), (), written.get("vocabulary", 0))


def settle(config: Config, samples: Samples) -> Config:
    """The config with every ``auto`` decided and every option written out: what the run directory records."""
    config = configs.with_own_rate(config)
    row = METHODS[config.method]
    encoder, recipe = suited(samples)
    if row.views != "auto" and _reads(row.views, samples):
        recipe = row.views
    if samples.kind == "image" and row.encoder != "auto":
        encoder = row.encoder
    if recipe == "dropout" and samples.kind == "text":
        encoder = "transformer"  # the views of it differ by the encoder's dropout, which a bag does not have
    encoder = encoder if config.encoder == "auto" else config.encoder
    recipe = recipe if config.views == "auto" else config.views
    _check_modalities(config.method, recipe, samples)
    method = configs.method_options(config.method, config.objective.get("name"))
    chosen = {"views": recipe, "encoders": encoder, "methods": config.method, "data": data.parts(config.data)[0]}
    chosen |= {"objectives": config.objective["name"]} if "name" in config.objective else {}
    return replace(
        config,
        encoder=encoder,
        views=recipe,
        epochs=config.epochs if row.trains else 0,
        batch=_fitting(config.batch, len(samples)),
        objective={**method["objective"], **config.objective},
        heads={**method["heads"], **config.heads},
        view=_by_the_data({**configs.view_options(config.method, recipe), **config.view}, samples),
        backbone=_by_the_data({**configs.row_options("encoders", encoder), **config.backbone}, samples),
        origins={room: place for room, name in chosen.items() if (place := tables.origin(room, name))},
    )


def _fitting(batch: int, n: int) -> int:
    """The batch; where the usual one is larger than the data, a power of two that makes two batches or more of it."""
    return batch if batch != Config.batch or batch <= n else 2 ** max(1, (n // 2).bit_length() - 1)


def _reads(recipe: str, samples: Samples) -> bool:
    """Whether a recipe is for samples of this kind and size; pairs of texts have their own."""
    kind = views.build(recipe).kind
    if recipe == "multi_crop" and samples.kind == "image" and min(samples.shape[1:]) < CROPPED:
        return False
    return kind == samples.kind or (kind == "any" and "positive" not in samples.beside)


def _by_the_data(options: dict[str, Any], samples: Samples) -> dict[str, Any]:
    """Options with what is left to the data: how many negatives there are, and how many tokens."""
    found = dict(options)
    if found.get("negatives") == -1:
        found["negatives"] = with_negatives(samples)
    if found.get("vocabulary") == 0 and samples.tokens is not None:
        found["vocabulary"] = samples.tokens.vocabulary
    least = 0 if samples.tokens is None else samples.tokens.vocabulary
    if 0 < found.get("vocabulary", least) < least:
        raise ValueError(
            f"The encoder knows {found['vocabulary']} tokens, and the tokenizer gives {least}: leave it to 0."
        )
    return found


def suited(samples: Samples) -> tuple[str, str]:
    """The encoder and the views for samples of a kind and shape."""
    backbones, recipes = configs.AUTOMATIC[samples.kind]
    if samples.kind == "text":
        return backbones[0], recipes["positive" in samples.beside]
    if samples.kind != "image":
        return backbones[0], recipes[0]
    large, gray = max(samples.shape[1:]) > LARGE, samples.shape[0] != 3
    return backbones[large], recipes[gray]


def build_learner(config: Config, samples: Samples, recipe: Any) -> nn.Module:
    """The learner with fresh weights; its first layer knows the mean and deviation of the data."""
    method = customized(config.method, heads=config.heads, objective=config.objective)
    kinds = {view.kind or samples.kind for view in recipe.views}
    if method.learner == "two_view" and len(kinds) > 1:
        method = _of_two_kinds(config.method, method)
    if method.labels and samples.labels is None:
        raise ValueError(f"{config.method} learns from labels, and the data has none.")
    first = _some(samples)[:2]
    examples = recipe(samples.x[first], first, recipe.fields_of(samples, first))
    problem = Problem(
        encoder=lambda view: build_encoder(config, samples, recipe, view=view),
        shape=tuple(examples[0].shape[1:]),
        classes=len(samples.classes) if samples.labels is not None else 0,
        kind=samples.kind,
        groups=recipe.groups,
        negatives=recipe.negatives,
    )
    _check_negatives(config.method, method, recipe)
    options = method.hyperparameters if method.objective is None else {}
    learner = LEARNERS[method.learner](method, problem, **options)
    if method.learner not in TWO_ENCODERS:
        _check_shapes(config, learner.encoder, examples)
    _check_dropout(config, learner.encoder, recipe)
    return learner


def whole_encoder(config: Config, samples: Samples, recipe: Any) -> nn.Module:
    """What a run keeps: the encoder, or both where a method trains one for each view and uses both."""
    first = build_encoder(config, samples, recipe)
    if METHODS[config.method].learner != "context":
        return first
    return SideBySide(first, build_encoder(config, samples, recipe))


def build_encoder(config: Config, samples: Samples, recipe: Any, *, view: int = 0) -> nn.Module:
    """The backbone behind a layer that standardizes its inputs; text has nothing to standardize.

    It is built for the plain sample, which the first view resembles, or for another view. One of another kind of data,
    such as a caption, is read by the encoder that ``auto`` takes for its kind.
    """
    places = _some(samples)
    x = samples.x[places]
    if view:
        keys = sample_keys(config.seed, 0, torch.arange(len(x)))
        seen = recipe.view(x, keys, number=view, fields=recipe.fields_of(samples, places))
    else:
        seen = recipe.plain(x)
    shape = tuple(seen.shape[1:])
    if samples.kind == "text" and not isinstance(samples.x, Tensor):
        shape = samples.shape  # batches of texts are as long as their longest text
    kind = recipe.views[view].kind
    if kind not in (None, samples.kind):
        backbone: Any = encoders.build(configs.AUTOMATIC[kind][0][0], shape)
    else:
        _check_reads(config.encoder, samples)
        backbone = encoders.build(config.encoder, shape, **config.backbone)
        backbone = encoders.cut(backbone, config.layer, shape) if config.layer else backbone
    if not seen.is_floating_point():
        return _weighted(backbone, samples)
    first = encoders.Standardize(shape).measure(seen)
    return encoders.with_width(nn.Sequential(first, backbone), backbone.width)


def _check_reads(encoder: str, samples: Samples) -> None:
    """Refuse an encoder of ours that reads numbers where there are tokens, and the other way round."""
    texts = configs.AUTOMATIC["text"][0]
    if encoder in encoders.ENCODERS and (encoder in texts) != (samples.kind == "text"):
        which = [name for name in encoders.ENCODERS if (name in texts) == (samples.kind == "text")]
        raise ValueError(f"The encoder {encoder} does not read {samples.kind} samples; these do: {', '.join(which)}.")


def _weighted(backbone: nn.Module, samples: Samples) -> nn.Module:
    """The encoder, its tokens weighted by how rare they are in the data, where it weights them."""
    for module in backbone.modules():
        if isinstance(module, TokenVectors | OwnColumns) and hasattr(samples.x, "document_counts"):
            counts, texts = samples.x.document_counts(module.vocabulary)
            module.measure(counts, texts)
    return backbone


def device(config: Config) -> torch.device:
    """The device of a config; ``auto`` takes an accelerator where there is one."""
    if config.device != "auto":
        return _existing(config.device)
    # A torch built for CUDA names it as its accelerator also where no GPU is.
    found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    return found or torch.device("cpu")


def _existing(name: str) -> torch.device:
    """A device of this machine that computes; any other is refused in a sentence."""
    try:
        torch.zeros(1, device=name).sum().item()
        if torch.device(name).type == "cpu" and torch.device(name).index:  # which torch takes for cpu
            raise ValueError("there is one cpu device, of all cores")
    except (RuntimeError, AssertionError, ValueError) as error:  # torch asserts that it was built for CUDA
        found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        there = f"cpu and {found}" if found else "cpu"
        first = str(error).strip().splitlines()[0][:200]
        raise ValueError(f"The device {name!r} cannot be used ({first}). There is {there}; auto takes it.") from error
    return torch.device(name)


@torch.no_grad()
def untrained(parts: Assembled, *, batches: int = 8) -> nn.Module:
    """The encoder before training, its batch norms calibrated on a few batches: the fair baseline."""
    torch.manual_seed(parts.config.seed)
    encoder = whole_encoder(parts.config, parts.samples, parts.recipe).to(device(parts.config))
    return calibrate(encoder, parts.config, parts.samples, parts.recipe, batches=batches)


@torch.no_grad()
def calibrate(encoder: nn.Module, config: Config, samples: Samples, recipe: Any, *, batches: int = 8) -> nn.Module:
    """The encoder with its batch norms at the plain average over a few batches; no weight changes."""
    encoder.train()
    for module in encoder.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.momentum = None  # a plain average over the batches seen
    for indices in _order(samples, batches * config.batch, seed=config.seed).split(config.batch):
        if len(indices) > 1:
            encoder(recipe.plain(samples.x[indices].to(device(config))))
    return encoder.eval()


def _check_negatives(name: str, method: Any, recipe: Any) -> None:
    if not recipe.negatives:
        return
    if method.objective is None or "hard_negatives" not in method.declared() or method.target != "online":
        raise ValueError(
            f"{name} takes no explicit negatives, and the data has {recipe.negatives} of each sample. Use simcse or "
            "quick_thought (info_nce), or leave them out with --view.negatives 0."
        )


def _check_dropout(config: Config, encoder: nn.Module, recipe: Any) -> None:
    """Refuse views that differ by the encoder's dropout where it has none: they would be equal."""
    rates = [module.p for module in encoder.modules() if isinstance(module, nn.Dropout)]
    if recipe.by_encoder and METHODS[config.method].trains and not any(rates):
        raise ValueError(
            f"The views {config.views!r} are the same sample twice and differ by the encoder's dropout alone, but "
            f"{config.encoder} has none. Use --encoder transformer, hf:MODEL, or other views."
        )


def _check_modalities(method: str, views: str, samples: Samples) -> None:
    if views == "captions" and samples.captions is None:
        raise ValueError(
            f"{method} compares images with their captions, and {samples.source} has none. Put a captions.csv with the "
            "columns file and caption into the folder of images."
        )
    if views == "pairs" and "positive" not in samples.beside:
        raise ValueError(
            f"The views 'pairs' compare a text with its positive, and {samples.source} has none. Give "
            "text:FILE,pairs=next for consecutive sentences, or pairs:FILE.tsv."
        )
    if METHODS[method].learner == "context" and views not in ("pairs", *TWO_MODALITIES):
        raise ValueError(
            f"{method} compares a text with its context: give text:FILE,pairs=next or pairs:FILE.tsv, not the views "
            f"{views!r}."
        )
    if METHODS[method].learner == "two_modal" and views not in TWO_MODALITIES:
        raise ValueError(
            f"{method} compares two kinds of data, but the views {views!r} are two of one kind. Give a folder of "
            "images with a captions.csv, or vectors whose first columns are one kind, with --views columns."
        )


def _of_two_kinds(name: str, method: Method) -> Method:
    """A method of one encoder, whose views are an image and its caption, as one of two: an encoder for each kind."""
    if method.target != "online" or method.prototypes or method.labels:
        raise ValueError(f"{name} compares views of one kind: for images and captions use clip or siglip.")
    return replace(method, learner="two_modal", pairs="global")


@torch.no_grad()
def _check_shapes(config: Config, encoder: nn.Module, examples: tuple[Tensor, ...]) -> None:
    """Refuse views of several shapes that one encoder cannot all read."""
    shapes = {tuple(view.shape[1:]): view for view in examples}
    if len(shapes) == 1:
        return
    mode = encoder.training
    try:
        widths = {encoder.eval()(view).shape[1:] for view in shapes.values()}
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        names = " and ".join(map(str, shapes))
        raise ValueError(
            f"{config.method} has one encoder, but its views would be of shapes {names}, which {config.encoder} "
            f"cannot all read: {error}"
        ) from error
    finally:
        encoder.train(mode)
    if len(widths) > 1:
        raise ValueError(f"{config.encoder} gives representations of several widths for views of several shapes.")


def _some(samples: Samples) -> Tensor:
    """Places of the samples that set what is fitted to the data."""
    decoded = isinstance(samples.x, Sharded) and samples.kind == "image"
    return features.rows_of(samples, DECODED if decoded else CALIBRATION)


def _order(samples: Samples, count: int, *, seed: int) -> Tensor:
    """Places of samples drawn evenly, in an order in which each batch is like the whole."""
    return shuffled(features.rows_of(samples, count), seed=seed)


def trained(run: Run) -> Assembled:
    """The parts of a finished run with its weights: the best, where a criterion was set, or the last."""
    parts = assemble(run.config, start=False, tokens=tokens_of(run))
    checkpoint = run.load(best=True)
    if checkpoint is None:
        raise FileNotFoundError(f"{run.path} has no checkpoint yet: train it first, or continue it with --resume.")
    loop.restore(parts.learner, None, checkpoint.tensors)
    return parts


def trained_encoder(run: Run) -> tuple[nn.Module, Any, dict[str, Any]]:
    """A finished run's frozen encoder, its recipe, and the kind and shape of its samples, without reading its data.

    Runs of earlier versions did not write down the shape of their samples: their data are read.
    """
    facts = run.read_json("samples.json") or {}
    if "shape" not in facts:
        parts = trained(run)
        return parts.learner.encoder.eval(), parts.recipe, {"kind": parts.samples.kind, "shape": parts.samples.shape}
    if facts.get("kind") not in get_args(Kind) or not _is_shape(facts["shape"]):
        known = f"{run.path / 'samples.json'} is damaged: {facts.get('kind')!r} samples of shape {facts['shape']!r}"
        raise ValueError(f"{known[:300]}. `vergence train --run {run.path} --resume` makes it again.")
    config, checkpoint = run.config, run.load(best=True)
    if checkpoint is None:
        raise FileNotFoundError(f"{run.path} has no checkpoint yet: train it first, or continue it with --resume.")
    dtype = {"image": torch.uint8, "text": torch.int64}.get(facts["kind"], torch.float32)
    x = torch.zeros(2, *facts["shape"], dtype=dtype)
    stand_in = Samples(x, facts["kind"])
    recipe = views.build(config.views, **config.view).fitted(x)
    encoder = whole_encoder(config, stand_in, recipe)
    prefix = "model.encoder."
    weights = {
        name.removeprefix(prefix): value for name, value in checkpoint.tensors.items() if name.startswith(prefix)
    }
    encoder.load_state_dict(weights)
    return encoder.to(device(config)).eval(), recipe, facts


def _is_shape(value: Any) -> bool:
    return isinstance(value, list) and all(type(size) is int and size > 0 for size in value)

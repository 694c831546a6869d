"""Starting from weights: of a library, a file, a folder or another run; and which layers may move away from them."""

import fnmatch
import hashlib
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from vergence import config as configs
from vergence.config import Config
from vergence.data import tokens as tokenizers
from vergence.data.tokens import Tokens
from vergence.encoders import Standardize
from vergence.encoders.external import expected_inputs, fresh, pretrained
from vergence.encoders.weights import Fitted, fit_in, read_weights
from vergence.learning import sentence_models
from vergence.learning.norm import keep_statistics
from vergence.runs.run import Run

FILE, FEATURES = "start.json", "start.safetensors"  # in the run: where it started, and its features before training
SAID = 10  # tensors that did not fit which are named on the console; all are in start.json and on the page
# Mean and deviation of the pixels of ImageNet in [0, 1], which nearly all published weights for images expect.
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
HALF = ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))


@dataclass(frozen=True)
class Start:
    """Where a run started: the source and its digest, what was taken, and how inputs are standardized."""

    source: str
    digest: str
    sentence: str
    inputs: str
    words: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def settled(config: Config) -> Config:
    """The config with the encoder of the run or folder that it starts from, where none is named, and its statistics."""
    if config.starting.statistics == "auto" and configs.is_started(config):
        chosen: Literal["keep", "follow"] = "follow" if is_run(config.start) else "keep"
        config = replace(config, starting=replace(config.starting, statistics=chosen))
    begun = sentence_models.start_options(config.start) if config.encoder == "auto" else None
    if begun is not None:
        return replace(config, encoder=begun["encoder"], backbone={**begun["backbone"], **config.backbone})
    if config.encoder == "auto" and is_language_model(config.start):
        return replace(config, encoder=f"hf:{config.start}", start="auto")
    if config.encoder != "auto" or not is_run(config.start):
        return config
    first = Run(config.start).config
    return replace(config, encoder=first.encoder, backbone={**first.backbone, **config.backbone}, layer=first.layer)


def tokens_of(start: str) -> Tokens | None:
    """The tokenizer of what a run starts from, whose token vectors belong to it; None where there is none."""
    return tokenizers.stored(Path(start)) if is_run(start) else sentence_models.start_tokens(start)


def is_language_model(start: str) -> bool:
    """Whether weights lie in a folder of sentence-transformers, or of a Hugging Face model with its tokenizer."""
    return all((Path(start) / name).is_file() for name in ("config.json", "tokenizer.json"))


def is_run(start: str) -> bool:
    return (Path(start) / "config.yaml").is_file()


def begin(learner: Any, config: Config) -> Start | None:
    """Put the starting weights into a learner: into its encoder, of a run its heads too if asked, and its average."""
    if config.start == "random":
        forget(learner.encoder, config)
    if not configs.is_started(config):
        return None
    made = _from_run(learner, config) if is_run(config.start) else _from_outside(learner.encoder, config)
    average = getattr(learner, "target", None)
    if average is not None:  # it was copied from the weights before
        average.module.load_state_dict(learner.branch.state_dict())
    return made


def forget(encoder: nn.Module, config: Config) -> None:
    """Put random weights into an encoder that was built with published ones, as those of Hugging Face are."""
    if config.encoder.startswith("hf:"):
        _backbone(encoder).load_state_dict(fresh(_backbone(encoder)).state_dict())


def say(start: Start) -> None:
    """A line on what was taken, and one for each tensor that did not fit."""
    more = len(start.words) - SAID
    rest = f"; and {more} more, in start.json" if more > 0 else ""
    misfits = " | ".join(start.words[:SAID])
    warnings.warn(f"Started from {start.source}: {start.sentence} {start.inputs} {misfits}{rest}".strip(), stacklevel=2)


def _from_run(learner: Any, config: Config) -> Start:
    run = Run(config.start)
    checkpoint = run.load(best=True)
    if checkpoint is None:
        raise FileNotFoundError(f"{run.path} has no checkpoint to start from: train it first.")
    every = {name.removeprefix("model."): value for name, value in checkpoint.tensors.items() if "model." in name[:6]}
    encoder = _below(every, "encoder.")
    fitted = [fit_in(learner.encoder, encoder, source=str(run.path))]
    if config.starting.heads:
        fitted += _heads(learner, every, source=str(run.path))
    inputs = "Inputs are standardized as in that run."
    return _start(config, fitted, every, inputs)


def _heads(learner: Any, every: Mapping[str, Tensor], *, source: str) -> list[Fitted]:
    """The heads of another run, as far as the learner has them."""
    found = []
    for name, head in learner.named_children():
        given = _below(every, f"{name}.")
        if name not in ("encoder", "target", "queue") and head.state_dict() and given:
            found.append(fit_in(head, given, source=f"{source} ({name})"))
    if not found:
        raise ValueError(f"{source} has no heads that this method has: leave out --starting.heads.")
    return found


def _from_outside(encoder: nn.Module, config: Config) -> Start:
    """Weights of a library or a file in the backbone, or where the file has our first layer too in the encoder."""
    backbone = _backbone(encoder)
    if config.start in ("auto", "pretrained"):
        weights = pretrained(config.encoder, backbone, config.backbone)
        source = config.encoder
    else:
        source = config.start
        weights = sentence_models.start_weights(source) or read_weights(Path(source))
    whole = any(name.endswith("0.deviation") for name in weights)
    fitted = fit_in(encoder if whole else backbone, weights, source=source)
    inputs = "Inputs are standardized as the file says." if whole else _standardized(encoder, config)
    return _start(config, [fitted], weights, inputs)


def _standardized(encoder: nn.Module, config: Config) -> str:
    """Set the first layer to what the weights expect of their inputs, and say it."""
    first = next(iter(encoder.children()), None)
    if not isinstance(first, Standardize) or first.mean.ndim != 3:
        return ""
    choice, channels = config.starting.inputs, first.mean.shape[0]
    known = expected_inputs(config.encoder, _backbone(encoder)) if choice == "auto" else None
    if choice == "data" or (known is None and choice == "auto" and channels != 3):
        return "Inputs are standardized by the data."
    figures = known or (HALF if choice == "half" else IMAGENET)
    first.set(
        *(torch.tensor(part).expand(channels) if len(part) != channels else torch.tensor(part) for part in figures)
    )
    if known:
        return "Inputs are standardized as the weights expect."
    return f"Inputs are standardized by {'0.5 and 0.5' if choice == 'half' else 'the mean and deviation of ImageNet'}."


def _start(config: Config, fitted: list[Fitted], weights: Mapping[str, Tensor], inputs: str) -> Start:
    source = config.encoder if config.start in ("auto", "pretrained") else config.start
    words = tuple(word for each in fitted for word in each.words)
    sentence = " ".join(
        [fitted[0].sentence, *(f"Heads: {each.taken} of {each.wanted} tensors." for each in fitted[1:])]
    )
    return Start(source, digest(weights), sentence, f"{inputs} {_normed(weights, config)}".strip(), words)


def _normed(weights: Mapping[str, Tensor], config: Config) -> str:
    """What becomes of the statistics of batch norms, where the weights have any."""
    if not any(name.endswith("running_var") for name in weights):
        return ""
    if config.starting.statistics == "keep":
        return "Its batch norms keep their means and variances."
    return "The means and variances of its batch norms follow the data."


def digest(weights: Mapping[str, Tensor]) -> str:
    """The SHA-256 of tensors by name, wherever they are stored."""
    made = hashlib.sha256()
    for name in sorted(weights):
        value = weights[name].detach().cpu().contiguous()
        made.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        made.update(value.flatten().view(torch.uint8).numpy().tobytes() if value.numel() else b"")
    return made.hexdigest()


# What may not move


def freeze(learner: Any, patterns: tuple[str, ...]) -> list[str]:
    """Stop the gradient to parameters of the encoder whose names match; their batch norms keep their statistics.

    A pattern is the name of a parameter or of a layer, with ``*``, ``?`` and ``[0-3]`` as in file names. Returns the
    names of the frozen parameters.
    """
    frozen = [_freeze(_backbone(place), patterns) for place in _encoders(learner)]
    return frozen[0]


def hold_statistics(learner: Any, config: Config) -> None:
    """Let the batch norms of an encoder keep the statistics that its weights came with, where the config says so.

    Those of views of other data can spoil published weights without a single step: EfficientNet-Lite0 on small photos
    loses a quarter of its probe's accuracy when they follow, even at a learning rate of 0, and none when they stay.
    """
    if configs.is_started(config) and config.starting.statistics == "keep":
        for module in (part for place in _encoders(learner) for part in place.modules()):
            if isinstance(module, _BatchNorm):
                keep_statistics(module)


def _encoders(learner: Any) -> list[nn.Module]:
    """The encoder, and its moving average where there is one."""
    return [learner.encoder, *([learner.target.module[0]] if getattr(learner, "target", None) else [])]


def _freeze(backbone: nn.Module, patterns: tuple[str, ...]) -> list[str]:
    names = [name for name, _ in backbone.named_parameters()]
    for pattern in patterns:
        if not any(_matches(name, (pattern,)) for name in names):
            raise ValueError(
                f"starting.freeze {pattern!r} matches no parameter of the encoder. It has {', '.join(names[:6])}, ..., "
                f"{names[-1]}."
            )
    chosen = [name for name in names if _matches(name, patterns)]
    for name in chosen:
        backbone.get_parameter(name).requires_grad_(False)
    for name, module in backbone.named_modules():
        if isinstance(module, _BatchNorm) and _matches(f"{name}.weight", patterns):
            keep_statistics(module)
    return chosen


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    """Whether a pattern names the parameter, or a layer that it belongs to."""
    parts = name.split(".")
    places = [".".join(parts[: end + 1]) for end in range(len(parts))]
    return any(fnmatch.fnmatchcase(place, pattern) for pattern in patterns for place in places)


def _backbone(encoder: nn.Module) -> nn.Module:
    """The encoder without the layer that standardizes its inputs."""
    parts = list(encoder.children())
    return parts[1] if len(parts) == 2 and isinstance(parts[0], Standardize) else encoder


def _below(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}

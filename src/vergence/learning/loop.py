"""fit(): the loop, as a generator of Steps.

A step depends only on the config, the weights before it and its own number: the order of the data and the views come
from counters, so nothing random has to be stored and a resumed run repeats an undisturbed one to the bit.
"""

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.data import DataLoader, Dataset

from vergence.config import Config
from vergence.counters import sample_keys, seed_from
from vergence.data import Samples
from vergence.data.samples import Sharded
from vergence.data.streaming import batches_of
from vergence.learning import collectives, optimizers, sharding
from vergence.learning.ahead import Batch, on_device
from vergence.learning.norm import keeps_statistics

BUCKET = 64  # batches among which texts are sorted by length
HANGS = 300.0  # seconds without a batch after which a loader worker is given up


@dataclass
class Step:
    """What one step did. ``number`` counts from 1; ``epoch`` is a fraction of passes over the data.

    An accelerator's ``loss`` is not known at once: to ask for it is to wait for the step. ``read`` asks for many.
    """

    number: int
    epoch: float
    value: float | Tensor
    learning_rate: float
    samples: int
    ends_epoch: bool

    @property
    def known(self) -> bool:
        """Whether the loss can be read without waiting."""
        return isinstance(self.value, float)

    @property
    def loss(self) -> float:
        read([self])
        return float(self.value)


class LossNotFinite(RuntimeError):
    """The loss became NaN or infinite: training stops before the weights are touched."""


class OutOfMemory(RuntimeError):
    """A batch did not fit in memory; the message says which chunk does."""


def steps_per_epoch(n: int, batch: int) -> int:
    """Whole batches in a pass over the data; the remaining samples are left out of it, others in each pass."""
    if batch > n:
        raise ValueError(
            f"The batch ({batch}) is larger than the data ({n} samples): use --batch {max(2, n // 2)} or less."
        )
    return n // batch


def fit(
    learner: nn.Module,
    optimizer: torch.optim.Optimizer,
    samples: Samples,
    recipe: Any,
    config: Config,
    *,
    start: int = 0,
) -> Iterator[Step]:
    """Train from step ``start`` to the end of the config, yielding after every step."""
    each = steps_per_epoch(len(samples.x), config.batch)
    total = each * config.epochs
    device = next(learner.parameters()).device
    options = {"chunk": config.chunk, "precision": precision(config.precision, device)}
    _check_norms(learner, config)
    learner.train()
    read_every, unread = config.compute.interval(device.type), []
    for number, batch in enumerate(on_device(_batches(learner, samples, recipe, config, start), device), start + 1):
        rate = optimizers.learning_rate(config.optim, number - 1, total, each)
        for group in optimizer.param_groups:
            group["lr"] = rate * group.get("scale", 1.0)
        views = recipe(batch.x, batch.keys, batch.fields)
        torch.manual_seed(
            seed_from(config.seed, number * collectives.world() + collectives.rank())
        )  # dropout and the like
        loss = _gradient_in_memory(learner, views, batch.labels, **options)
        step = Step(number, number / each, loss, rate, config.batch, number % each == 0)
        if read_every == 1:
            read([step])  # before the weights are touched
        if config.optim.clip:
            clip(learner, config.optim.clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        learner.after_step(number / total)  # type: ignore[operator]
        unread.append(step)
        if number % read_every == 0 or step.ends_epoch:
            read(unread)
            unread = []
        yield step


def read(steps: Sequence[Step]) -> None:
    """Make the losses of some steps known, with one copy from the device for all of them; each must be finite.

    Where several are read together, the weights have moved on by the time that a loss turns out not to be finite; what
    is written to disk is written after a reading, so that the last checkpoint is sound.
    """
    waiting = [step for step in steps if not step.known]
    if waiting:
        values = torch.stack([torch.as_tensor(step.value) for step in waiting]).cpu()
        for step, value in zip(waiting, values.tolist(), strict=True):
            step.value = value
    for step in steps:
        _check_finite(step.value, step.number, step.learning_rate)  # type: ignore[arg-type]


def _batches(learner: nn.Module, samples: Samples, recipe: Any, config: Config, start: int) -> Iterator[Batch]:
    """Everything that the steps from ``start`` on need of their samples, in the memory of the processor."""
    each, lengths = steps_per_epoch(len(samples.x), config.batch), padded_lengths(samples, learner)
    for place, (indices, x) in enumerate(batches(samples, config, start=start, lengths=lengths), start):
        labels = None if samples.labels is None else samples.labels[indices]
        yield Batch(x, sample_keys(config.seed, place // each, indices), labels, recipe.fields_of(samples, indices))


def batches(
    samples: Samples, config: Config, *, start: int = 0, lengths: "Tensor | Summed | None" = None
) -> Iterator[tuple[Tensor, Tensor]]:
    """This process's part of every batch from step ``start`` on: (indices, samples).

    With ``lengths``, one a sample, the samples of a batch are about equally long.
    """
    each = steps_per_epoch(len(samples.x), config.batch)
    rank, world = collectives.rank(), collectives.world()
    if config.batch % world:
        raise ValueError(f"The batch ({config.batch}) must be a multiple of the number of processes ({world}).")

    def plan() -> Iterator[Tensor]:
        for epoch in range(start // each, config.epochs):
            first = max(0, start - epoch * each)
            if isinstance(samples.x, Sharded):
                yield from _dealt(samples.x, config, epoch, range(first, each))
                continue
            order = epoch_order(len(samples.x), config.seed, epoch)
            if lengths is not None:
                whole = order[: each * config.batch]
                order = by_length(whole, lengths, config.batch, seed_from(config.seed, -1 - epoch))
            for place in range(first, each):
                yield order[place * config.batch : (place + 1) * config.batch].chunk(world)[rank]

    if isinstance(samples.x, Tensor) or not config.workers:
        return batches_of(samples.x, plan())
    reader = _read_by_workers(samples.x, plan(), config.workers)
    return samples.x.delivered(reader) if isinstance(samples.x, Sharded) else reader


def _dealt(x: Sharded, config: Config, epoch: int, places: range) -> Iterator[Tensor]:
    """This process's part of the batches of an epoch, dealt from shards; the next ones are fetched meanwhile."""
    rank, world = collectives.rank(), collectives.world()
    order = x.order(seed=config.seed, epoch=epoch, batch=config.batch)
    for place in places:
        x.ahead(order.upcoming(place, rank=rank, world=world))
        yield order.indices(place, rank=rank, world=world)


def _read_by_workers(x: Any, plan: Iterator[Tensor], workers: int) -> Iterator[Any]:
    """Batches read ahead by other processes, in order: they are whole already, so the loader collates nothing."""
    reader = DataLoader(_Reader(x), sampler=plan, batch_size=None, num_workers=workers, timeout=HANGS)
    try:
        yield from reader
    except (RuntimeError, OSError) as error:
        raise RuntimeError(f"A data-loading worker died or hung: {error}. Try --workers 0 to see its error.") from error


class _Reader(Dataset):
    """Batches by their indices, for data-loader workers."""

    def __init__(self, x: Any):
        self.x = x

    def __getitem__(self, indices: Tensor) -> Any:
        return self.x.batch(indices) if isinstance(self.x, Sharded) else (indices, self.x[indices])


def epoch_order(n: int, seed: int, epoch: int) -> Tensor:
    """The order of the samples in an epoch: a function of the seed and the epoch alone."""
    return torch.randperm(n, generator=torch.Generator().manual_seed(seed_from(seed, epoch)))


def by_length(order: Tensor, lengths: "Tensor | Summed", batch: int, seed: int) -> Tensor:
    """An order of whole batches whose samples are about equally long, the batches themselves in random order.

    Stretches of 64 batches are sorted by length and cut: padding then takes a few percent. The order is a function of
    its arguments alone, so a resumed run repeats it.
    """
    made = []
    for stretch in order.split(BUCKET * batch):
        made += stretch[lengths[stretch].argsort(stable=True)].split(batch)
    return torch.cat([made[place] for place in torch.randperm(len(made), generator=_generator(seed)).tolist()])


def padded_lengths(samples: Samples, learner: nn.Module) -> "Summed | None":
    """Lengths of the samples where they differ and the encoder computes padding too; None where it packs rows."""
    if getattr(learner.encoder, "packs", False) or not hasattr(samples.x, "lengths"):
        return None
    others = [values.lengths for values in samples.beside.values() if hasattr(values, "lengths")]
    return Summed((samples.x.lengths, *others))


@dataclass(frozen=True)
class Summed:
    """The lengths of all texts of a sample together; of texts in a file they are read when they are asked for."""

    lengths: tuple[Any, ...]

    def __getitem__(self, indices: Tensor) -> Tensor:
        return sum(each[indices] for each in self.lengths)  # type: ignore[return-value]


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def clip(module: nn.Module, most: float) -> None:
    """Shorten the gradient to a norm of ``most``, rows of token vectors among it."""
    given = [parameter.grad for parameter in module.parameters() if parameter.grad is not None]
    dense = [gradient.coalesce().values() if gradient.is_sparse else gradient for gradient in given]
    norm = torch.stack([sharding.whole(gradient.norm()) for gradient in dense]).norm()
    scale = torch.clamp(most / (norm + 1e-6), max=1.0)  # as in torch.nn.utils.clip_grad_norm_
    for gradient in given:
        gradient.mul_(float(scale) if sharding.is_sharded(gradient) else scale)


def gradient(
    learner: nn.Module,
    views: Sequence[Tensor],
    labels: Tensor | None,
    *,
    chunk: int = 0,
    precision: torch.dtype | None = None,
) -> float:
    """Add the gradient of the loss of the whole batch to the parameters; return the loss.

    With ``chunk``, the views are encoded twice in pieces: once for the embeddings, whose gradient is taken at once, and
    once more to carry it to the weights. The result is the same wherever the encoder treats samples one by one. Batch
    norm does not, and sees its piece: ``fit`` warns of it.

    References:
        Gao et al. (2021), gradient caching. https://arxiv.org/abs/2101.06983
    """
    return float(_gradient(learner, views, labels, chunk=chunk, precision=precision))


def _gradient(
    learner: nn.Module, views: Sequence[Tensor], labels: Tensor | None, *, chunk: int, precision: torch.dtype | None
) -> Tensor:
    """``gradient``, with the loss where it was computed; the objectives bring half precision to float32 themselves."""
    device = views[0].device.type
    with torch.autocast(device, dtype=precision, enabled=precision is not None):
        if not chunk or chunk >= len(views[0]):
            loss = learner(views, labels)
            loss.backward()
        else:
            loss = _cached_gradient(learner, views, labels, chunk)
    collectives.average_gradients(learner)
    return loss.detach()


def precision(name: str, device: torch.device) -> torch.dtype | None:
    """The autocast dtype of a config; ``None`` for float32. Automatic means bfloat16 on a GPU that has it."""
    if name == "auto":
        return torch.bfloat16 if device.type == "cuda" and torch.cuda.is_bf16_supported() else None
    return None if name == "float32" else getattr(torch, name)


def state(learner: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Everything a step depends on, as named tensors: weights, buffers (queue and averages among them), moments."""
    tensors = {f"model.{name}": tensor for name, tensor in learner.state_dict().items()}
    for number, moments in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{number}.{name}": torch.as_tensor(value) for name, value in moments.items()}
    return {name: tensor.detach().cpu().clone() for name, tensor in tensors.items()}


def restore(learner: nn.Module, optimizer: torch.optim.Optimizer | None, tensors: Mapping[str, Tensor]) -> None:
    """Put back what ``state`` took; a checkpoint of another architecture is refused."""
    weights = {name.removeprefix("model."): value for name, value in tensors.items() if name.startswith("model.")}
    try:
        learner.load_state_dict(weights)
    except RuntimeError as error:
        raise ValueError(f"The checkpoint does not fit this method and encoder: {error}") from error
    if optimizer is None:
        return
    moments: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        if name.startswith("optimizer."):
            _, number, key = name.split(".")
            moments.setdefault(int(number), {})[key] = value
    optimizer.load_state_dict({**optimizer.state_dict(), "state": moments})


def _cached_gradient(learner: nn.Module, views: Sequence[Tensor], labels: Tensor | None, chunk: int) -> Tensor:
    # Pieces of nearly equal size: a remainder of one sample would have no variance for batch norm.
    pieces = list(zip(*(view.tensor_split(math.ceil(len(view) / chunk)) for view in views), strict=True))
    # Dropout must draw the same masks in both passes: each piece begins from a state of its own.
    seeds = torch.randint(2**62, (len(pieces),)).tolist()
    with torch.no_grad():
        parts = [_outputs(learner, piece, seed) for piece, seed in zip(pieces, seeds, strict=True)]
    whole = [torch.cat(column).requires_grad_() for column in zip(*parts, strict=True)]
    loss = learner.loss(whole, labels)  # type: ignore[operator]
    loss.backward()
    caches = [None if output.grad is None else output.grad.tensor_split(len(pieces)) for output in whole]
    for number, piece in enumerate(pieces):
        outputs = _outputs(learner, piece, seeds[number])
        live = [
            (output, cache) for output, cache in zip(outputs, caches, strict=True) if cache and output.requires_grad
        ]
        torch.autograd.backward([output for output, _ in live], [cache[number] for _, cache in live])
    return loss


def _outputs(learner: nn.Module, piece: Sequence[Tensor], seed: int) -> list[Tensor]:
    torch.manual_seed(seed)
    return learner.outputs(piece)  # type: ignore[operator]


def _gradient_in_memory(learner: nn.Module, views: Sequence[Tensor], labels: Tensor | None, **options: Any) -> Tensor:
    """The gradient, or where memory ends an error that names the largest halved chunk for which it does not."""
    try:
        return _gradient(learner, views, labels, **options)
    except RuntimeError as error:
        if not _is_out_of_memory(error):
            raise
    # Outside of the except block, in which the error still holds the tensors of the failed step.
    n = len(views[0])
    chunk = _fitting_chunk(learner, views, labels, **options)
    advice = f"--chunk {chunk} fits" if chunk else "not even two fit: use smaller samples"
    raise OutOfMemory(f"Out of memory while encoding {min(n, options['chunk'] or n)} samples at once: {advice}.")


def _fitting_chunk(learner: nn.Module, views: Sequence[Tensor], labels: Tensor | None, **options: Any) -> int:
    """The first of n/2, n/4, ..., 2 samples for which the step succeeds; 0 when none does."""
    chunk = min(len(views[0]), options["chunk"] or len(views[0])) // 2
    while chunk >= 2:
        learner.zero_grad(set_to_none=True)
        try:
            # Several processes would have to try together: the half is then a guess.
            if collectives.world() == 1:
                gradient(learner, views, labels, **{**options, "chunk": chunk})
            return chunk
        except RuntimeError as error:
            if not _is_out_of_memory(error):
                raise
        chunk //= 2
    return 0


def _is_out_of_memory(error: RuntimeError) -> bool:
    # Accelerators have a class for it; the processor's allocator has only words.
    return isinstance(error, torch.OutOfMemoryError) or "allocate memory" in str(error)


def _check_norms(learner: nn.Module, config: Config) -> None:
    """Refuse batch norm over a single sample, whose variance is 0; warn of batch norm over a part of the batch."""
    here = config.batch // collectives.world()
    moving = (module for module in learner.modules() if isinstance(module, _BatchNorm) and not keeps_statistics(module))
    if not 0 < config.chunk < here or not any(True for _ in moving):
        return
    if config.chunk == 1:
        raise ValueError("Batch norm needs at least two samples at once and --chunk 1 gives it one: use 2 or more.")
    if collectives.rank() == 0:
        warnings.warn(
            f"Batch norm will see chunks of {config.chunk} samples, not the batch of {config.batch}, so the "
            "gradient is not that of the whole batch. It is with --heads.no-projector-norm and an encoder that treats "
            "samples one by one, such as halfnet, mlp with --backbone.no-norm, or timm:convnext_tiny.",
            stacklevel=3,
        )


def _check_finite(loss: float, number: int, rate: float) -> None:
    if not math.isfinite(loss):
        raise LossNotFinite(
            f"The loss is {loss} at step {number} (learning rate {rate:.3g}). The last checkpoint is kept. "
            "Try a smaller --optim.learning-rate, --optim.clip 1, or a higher --objective.temperature."
        )

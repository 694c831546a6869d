"""Batches on their way to an accelerator: the copy of the next one runs while the step of this one is computed.

The samples are copied from pinned memory on a stream of their own, so that the processor does not wait and the copy
does not stand in line behind the step. Decoding happens before, in threads or processes; views are drawn after, on the
device.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """What a step needs of its samples: themselves, the keys of their views, labels, and other fields by name."""

    x: Tensor
    keys: Tensor
    labels: Tensor | None
    fields: dict[str, Tensor]

    def to(self, device: torch.device, *, pinned: bool = False) -> "Batch":
        """The batch on a device; from pinned memory, the processor goes on while it is copied."""

        def moved(value: Any) -> Any:
            if isinstance(value, dict):
                return {name: moved(one) for name, one in value.items()}
            if value is None:
                return None
            return value.pin_memory().to(device, non_blocking=True) if pinned else value.to(device)

        return Batch(**{field.name: moved(getattr(self, field.name)) for field in fields(self)})

    def tensors(self) -> Iterator[Tensor]:
        yield from (value for value in (self.x, self.keys, self.labels, *self.fields.values()) if value is not None)


def on_device(batches: Iterable[Batch], device: torch.device) -> Iterator[Batch]:
    """Batches on the device, in order; where it has streams, each is copied during the step of the one before."""
    module = None if device.type == "cpu" else torch.get_device_module(device)
    if module is None or not hasattr(module, "Stream"):
        yield from (batch.to(device) for batch in batches)
        return
    side, waiting = module.Stream(device=device), None
    for batch in batches:
        following = _copied(batch, device, module, side)
        if waiting is not None:
            yield _arrived(waiting, module, device)
        waiting = following
    if waiting is not None:
        yield _arrived(waiting, module, device)


def _copied(batch: Batch, device: torch.device, module: Any, side: Any) -> tuple[Batch, Any]:
    """The batch being copied on the side stream, and the event of its arrival."""
    with module.stream(side):
        return batch.to(device, pinned=True), side.record_event()


def _arrived(sent: tuple[Batch, Any], module: Any, device: torch.device) -> Batch:
    """The batch, which the step's stream waits for; the processor does not."""
    batch, event = sent
    stream = module.current_stream(device)
    stream.wait_event(event)
    if device.type == "cuda":
        for tensor in batch.tensors():
            tensor.record_stream(stream)  # its memory is not given away before the step has used it
    return batch

"""Batches read ahead, so that decoding images and training on them overlap."""

import dataclasses
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from torch import Tensor

from vergence.data.arrays import StoredArray, released
from vergence.data.samples import Batch, Samples, Sharded, Stored
from vergence.data.shards import Shards

Value = TypeVar("Value")

DEPTH = 2  # batches read ahead: one is ready while the next is being read


def batches_of(x: Tensor | Stored, order: Iterable[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
    """Each batch of indices with its samples, in order; those on disk are read while the one before is in use.

    Reading happens in a thread of this process: what comes out, and when it fails, does not depend on timing.
    """
    if isinstance(x, Sharded):
        yield from x.delivered(_ahead(x.batch, order))
        return
    if isinstance(x, Tensor):
        yield from ((indices, x[indices]) for indices in order)
        return
    yield from _ahead(lambda indices: (indices, x[indices]), order)


def sound(samples: Samples, order: Iterable[Tensor]) -> Iterator[Batch]:
    """Batches with their labels, without what cannot be read, which is named; in order, read ahead, then let go of."""
    x = dataclasses.replace(samples.x, most_open=2) if isinstance(samples.x, Shards) else samples.x

    def read(indices: Tensor) -> Batch:
        if isinstance(x, Tensor | StoredArray) or not hasattr(x, "batch"):
            found = Batch(indices, x[indices], {}, [])
        else:
            found = x.batch(indices)
        if isinstance(x, StoredArray):
            released(x.array)
        if isinstance(x, Shards):
            return found
        labels = {} if samples.labels is None else {"labels": samples.labels[found.indices]}
        names = samples.names or range(len(samples))
        return found._replace(fields=labels, skipped=[(names[index], reason) for index, reason in found.skipped])

    yield from _ahead(read, order)


def _ahead(read: Callable[[Tensor], Value], order: Iterable[Tensor]) -> Iterator[Value]:
    with ThreadPoolExecutor(1) as reader:
        waiting: deque[Future[Value]] = deque()
        for indices in order:
            waiting.append(reader.submit(read, indices))
            if len(waiting) > DEPTH:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

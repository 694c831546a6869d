"""Batches read ahead, so that decoding images and training on them overlap."""

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from torch import Tensor

from vergence.data.samples import Stored

DEPTH = 2  # batches read ahead: one is ready while the next is being read


def batches_of(x: Tensor | Stored, order: Iterable[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
    """Each batch of indices with its samples, in order; those on disk are read while the one before is in use.

    Reading happens in a thread of this process: what comes out, and when it fails, does not depend on timing.
    """
    if isinstance(x, Tensor):
        yield from ((indices, x[indices]) for indices in order)
        return
    with ThreadPoolExecutor(1) as reader:
        waiting: deque[tuple[Tensor, Future[Tensor]]] = deque()
        for indices in order:
            waiting.append((indices, reader.submit(x.__getitem__, indices)))
            if len(waiting) > DEPTH:
                yield _finished(waiting)
        while waiting:
            yield _finished(waiting)


def _finished(waiting: deque[tuple[Tensor, Future[Tensor]]]) -> tuple[Tensor, Tensor]:
    indices, samples = waiting.popleft()
    return indices, samples.result()

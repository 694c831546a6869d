"""Progress of the slow first pass over files: a bar when a person is watching and it takes a while."""

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")
PATIENCE = 3.0  # seconds before a bar appears: shorter waits need no explanation


def with_progress(items: Iterable[Item], *, total: int, what: str, size: int = 1) -> Iterator[Item]:
    """The items as they come; each advances by ``size`` a bar that appears when standard error is a terminal."""
    if not sys.stderr.isatty():
        yield from items
        return
    from rich.console import Console
    from rich.progress import Progress

    start = time.monotonic()
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total, visible=False)
        for item in items:
            yield item
            bar.update(task, advance=size, visible=time.monotonic() - start > PATIENCE)

"""Records: what a sample in a shard consists of, whatever the format of the shard."""

from dataclasses import dataclass
from typing import Any, Literal, Protocol

Form = Literal["bytes", "array", "text"]


class Damaged(Exception):
    """A shard or a record that cannot be read: it is skipped, counted and named."""


@dataclass(frozen=True)
class Roles:
    """Where in a record the sample is, in what form, and where its label and its caption; empty for none."""

    data: str
    form: Form
    label: str = ""
    caption: str = ""
    key: str = ""
    shape: tuple[int, ...] = ()  # of one array, where the shards say it

    @property
    def described(self) -> str:
        shape = f" {list(self.shape)}" if self.shape else ""
        return f"{self.data!r} ({self.form}{shape})"


@dataclass(frozen=True)
class Listing:
    """What one shard holds: samples in each of its pieces, their roles, its labels if they are few, and its fault.

    ``classes`` are the names of labels 0, 1, ... where the shard says them.
    """

    counts: tuple[int, ...]
    roles: Roles
    labels: set[Any] | None = None
    fault: str = ""
    classes: tuple[str, ...] = ()


class Records(Protocol):
    """The samples of one open piece."""

    fault: str

    def __len__(self) -> int: ...

    def name(self, row: int) -> str: ...

    def data(self, row: int, roles: Roles) -> Any: ...

    def label(self, row: int, roles: Roles) -> Any: ...

    def caption(self, row: int, roles: Roles) -> str: ...

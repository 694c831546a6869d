"""Reading: how the records of a shard become samples of one kind and shape, with labels and captions."""

import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from vergence.data.arrays import FRACTIONS, NUMPY, _channels_first
from vergence.data.captions import LENGTH as CAPTION
from vergence.data.images import _in_threads, _reason, pixels
from vergence.data.samples import Kind
from vergence.data.shards import tables, tars
from vergence.data.shards.records import Damaged, Roles
from vergence.data.text import tokenized

DTYPES = {"image": torch.uint8, "text": torch.int64, "vector": torch.float32, "series": torch.float32}
UNKNOWN = -1  # the code of a label that is none


@dataclass(frozen=True, eq=False)
class Reading:
    """Format and roles of the records, and what samples they become. ``codes`` is None where labels are 0, 1, ..."""

    format: str
    roles: Roles
    kind: Kind
    shape: tuple[int, ...]
    classes: tuple[str, ...] = ()
    codes: Mapping[Any, int] | None = None
    tokens: Mapping[str, Any] = field(default_factory=dict)

    @property
    def dtype(self) -> torch.dtype:
        return DTYPES[self.kind]

    def empty_fields(self, n: int) -> dict[str, Tensor]:
        """Room for the labels and captions of n samples."""
        fields = {"labels": torch.zeros(n, dtype=torch.int64)} if self.roles.label else {}
        return fields | ({"captions": torch.zeros(n, CAPTION, dtype=torch.int64)} if self.roles.caption else {})

    def opened(self, path: Path, piece: int, place: str) -> "Opened":
        records: Any = tars.opened(path) if self.format == "wds" else tables.opened(path, piece, self.roles)
        return Opened(records, self, place)

    def sample(self, value: Any) -> Tensor:
        """One sample from what its record holds."""
        if self.kind == "text":
            return tokenized([value], **self.tokens)[0]
        if self.roles.form == "bytes":
            with Image.open(io.BytesIO(value)) as image:
                return torch.from_numpy(pixels(image, size=self.shape[-1], channels=self.shape[0]))
        return self.samples(np.asarray(value)[None])[0]

    def samples(self, arrays: np.ndarray) -> Tensor:
        """Samples from arrays of one shape."""
        x = _channels_first(arrays, self.kind, self.roles.data)
        if x.shape[1:] != self.shape:
            raise Damaged(f"it has the shape {list(x.shape[1:])}, the others {list(self.shape)}")
        if x.dtype.kind == "f" and not np.isfinite(x).all():
            raise Damaged("it holds NaN or infinite values")
        if self.kind == "image" and x.dtype.kind in FRACTIONS:
            x = np.round(x * 255)
        return torch.from_numpy(np.ascontiguousarray(x, NUMPY[self.dtype]))

    def code(self, label: Any) -> int:
        """A label as a number."""
        if self.codes is not None:
            return self.codes.get(label, UNKNOWN)
        return label if isinstance(label, int) and 0 <= label < len(self.classes) else UNKNOWN


@dataclass(frozen=True, eq=False)
class Opened:
    """An open piece of a shard."""

    records: Any
    reading: Reading
    place: str

    def read(
        self, rows: np.ndarray, at: Tensor, x: Tensor, fields: Mapping[str, Tensor], sound: Tensor
    ) -> list[tuple[str, str]]:
        """Put the samples at ``rows`` into places ``at`` of a batch; return the names and faults of damaged ones."""
        faults: dict[int, str] = {}
        whole = self._whole(rows)
        if whole is not None:
            x[at], sound[at] = whole, True
        else:
            for row, place, outcome in zip(rows.tolist(), at.tolist(), self._decoded(rows.tolist()), strict=True):
                if isinstance(outcome, str):
                    faults[row] = outcome
                else:
                    x[place], sound[place] = outcome, True
        for name, values in fields.items():
            for row, place in zip(rows.tolist(), at.tolist(), strict=True):
                try:
                    values[place] = self._label(row) if name == "labels" else self._caption(row)
                except Damaged as error:
                    faults.setdefault(row, str(error))
                    sound[place] = False
        return [(f"{self.place}: {self.name(row)}", fault) for row, fault in faults.items()]

    def _whole(self, rows: np.ndarray) -> Tensor | None:
        """The samples in one step, where the piece holds them as one array and all are sound."""
        arrays = getattr(self.records, "arrays", None)
        if arrays is None or rows.max() >= len(arrays):
            return None
        try:
            return self.reading.samples(arrays[rows])
        except (Damaged, ValueError):
            return None

    def _decoded(self, rows: list[int]) -> Iterable[Tensor | str]:
        return map(self._attempt, rows) if torch.get_num_threads() == 1 else _in_threads(self._attempt, rows)

    def _attempt(self, row: int) -> Tensor | str:
        """A sample, or the reason why there is none."""
        try:
            return self.reading.sample(self.records.data(row, self.reading.roles))
        except Exception as error:  # a damaged image may raise anything
            return _reason(error)

    def _label(self, row: int) -> int:
        label = self.records.label(row, self.reading.roles)
        code = self.reading.code(label)
        if code == UNKNOWN:
            raise Damaged(
                f"its label {label!r} is not among the {len(self.reading.classes)} classes of the other shards"
            )
        return code

    def _caption(self, row: int) -> Tensor:
        return tokenized([self.records.caption(row, self.reading.roles)], length=CAPTION)[0]

    def name(self, row: int) -> str:
        return self.records.name(row) if row < len(self.records) else f"sample {row}"

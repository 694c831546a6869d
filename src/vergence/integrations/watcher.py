"""Watcher: the doctor inside anyone's training loop; a few numbers every so many steps, and a page at the end."""

import json
import math
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vergence import features, report
from vergence.counters import drawn, shuffled
from vergence.diagnostics import SCALES, alignment, thermometer, uniformity
from vergence.diagnostics.spectrum import EPSILON, entropy_rank, moments
from vergence.runs import assessment
from vergence.runs.results import Results

ROWS = 1024  # embeddings that are kept for the page: enough for a rank of a few hundred
MEASURED = 512  # of them, drawn evenly, that the numbers along training are of: a quarter of the products
FEWEST = 8  # rows below which nothing is measured
COLLAPSED = 1.5  # an effective rank below this is one direction, give or take

Tell = Callable[[Mapping[str, float], int], None]


class Watcher:
    """Call it after every step with the loss and the embeddings; it measures now and then; ``close`` writes a page.

        watcher = Watcher("runs/theirs", objective="nt_xent", temperature=0.5)
        for x1, x2 in loader:
            ...                               # their step: z1, z2, loss
            watcher(loss, z1, z2)
        watcher.close()

    Between measurements a call costs nothing but a comparison: losses are not synchronized, embeddings are kept only in
    the last steps before a measurement. ``tell`` is called with the numbers by name and the step, for a logger.
    """

    def __init__(
        self,
        run: str | Path = "runs/watched",
        *,
        objective: str | None = None,
        every: int = 100,
        rows: int = ROWS,
        tell: Tell | None = None,
        **hyperparameters: Any,
    ):
        if every < 1:
            raise ValueError(f"every must be at least 1 step, got {every}.")
        if objective is not None:
            SCALES[objective]  # an unknown name is explained here, not after an hour
        self.path, self.objective, self.hyperparameters = Path(run), objective, hyperparameters
        self.every, self.rows, self.tell = every, rows, tell
        self.step, self.batch, self.log = 0, 0, []  # type: int, int, list[dict[str, float]]
        self._losses: list[Any] = []
        self._kept: list[dict[str, Tensor]] = []
        self._held = 0  # rows in them

    def wants_embeddings(self) -> bool:
        """Whether the coming step is one of those whose embeddings are kept."""
        steps = math.ceil(self.rows / max(1, self.batch)) if self.batch else self.every
        return -(self.step + 1) % self.every < min(steps, self.every) or not self.batch

    def __call__(
        self,
        loss: Any,
        z1: Tensor | None = None,
        z2: Tensor | None = None,
        *,
        h: Tensor | None = None,
        labels: Tensor | None = None,
    ) -> dict[str, float]:
        """One step of the loop; the numbers when they were measured after it, otherwise nothing."""
        wanted = self.wants_embeddings()
        self.step += 1
        self._losses.append(loss.detach() if isinstance(loss, Tensor) else loss)
        if z1 is not None:
            self.batch = self.batch or len(z1)
            if wanted:
                self._keep({"z1": z1, "z2": z2, "h": h, "labels": labels})
        if self.step % self.every:
            return {}
        return self._measured()

    def close(self) -> Results | None:
        """The verdict and the page, from the last embeddings; nothing where there were none."""
        if self._losses:
            self._measured()
        rows = self._rows()
        # Captured while training, batch norm has moved every batch as one; in another order that is no fault of theirs.
        order = shuffled(torch.arange(len(rows.get("z1", ()))))
        rows = {name: value[order] for name, value in rows.items()}
        if len(order) < FEWEST:
            warnings.warn(f"No page: {len(order)} embeddings were seen and {FEWEST} are the least.")
            return None
        found = self._diagnosed(rows)
        self.path.mkdir(parents=True, exist_ok=True)
        found.write(self.path)
        stored = features.from_arrays(rows.get("h", rows["z1"]), rows.get("labels")).tensors("test")
        features.save(self.path / "features.safetensors", stored)
        (self.path / "log.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in self.log), encoding="utf-8")
        page = report.write(self.path)
        print(f"{found.verdict.label}: {found.verdict.sentence}\nPage: {page}")
        return found

    def _diagnosed(self, rows: Mapping[str, Tensor]) -> Results:
        pairs: dict[str, Any] = {"z1": rows["z1"], "z2": rows["z2"]} if "z2" in rows else {}
        options: dict[str, Any] = {"labels": rows.get("labels"), "steps": self.step}
        if self.objective is not None and self.log:
            options |= {"objective": self.objective, "loss": self.log[-1]["loss"], "batch": self.batch}
            options |= self.hyperparameters
        return assessment.of_arrays(rows.get("h", rows["z1"]), **pairs, **options)

    def _keep(self, given: dict[str, Tensor | None]) -> None:
        """Remember a step as it is, and forget those that later ones make up for."""
        if self._kept and self._kept[-1]["z1"].shape[1:] != given["z1"].shape[1:]:  # type: ignore[union-attr]
            self._kept, self._held = [], 0
        own = {name: value.detach() for name, value in given.items() if value is not None}
        self._kept.append(own)
        self._held += len(own["z1"])
        while self._held - len(self._kept[0]["z1"]) >= self.rows:
            self._held -= len(self._kept.pop(0)["z1"])

    def _rows(self) -> dict[str, Tensor]:
        """What is kept, by name, as long tensors; only what every kept step has."""
        names = set.intersection(*(set(part) for part in self._kept)) if self._kept else set()
        long = {name: torch.cat([part[name] for part in self._kept])[-self.rows :].cpu() for name in sorted(names)}
        return {name: rows if name == "labels" else rows.float() for name, rows in long.items()}

    @torch.no_grad()
    def _measured(self) -> dict[str, float]:
        losses = [float(loss) for loss in self._losses if loss is not None]
        self._losses = []
        numbers: dict[str, float] = {}
        if losses:
            numbers["loss"] = sum(losses) / len(losses)
        rows = self._rows()
        if len(rows.get("z1", ())) >= FEWEST:
            numbers |= self._geometry(rows)
        if self.objective is not None and "loss" in numbers and self.batch > 1:
            width = rows["z1"].shape[1] if "z1" in rows else 128
            scale = thermometer(self.objective, n=self.batch, d=width, loss=numbers["loss"], **self.hyperparameters)
            numbers["thermometer"] = float(scale.position) if scale.position is not None else math.nan
        if self.log and self.log[-1]["step"] == self.step:
            return numbers
        self.log.append({"step": self.step, "epoch": float(self.step), **_finite(numbers)})
        if self.tell is not None:
            self.tell(
                {f"vergence/{name}": value for name, value in _finite(numbers).items() if name != "loss"}, self.step
            )
        self._warn(numbers)
        return numbers

    def _geometry(self, rows: Mapping[str, Tensor]) -> dict[str, float]:
        """Rank, uniformity and alignment of some of the rows.

        The rank comes from the products of rows or of columns, whichever are fewer: of 512 rows with 2,048 columns that
        takes a fifth of the time of their singular values, which it has to 1e-8 of the largest.
        """
        chosen = drawn(len(rows["z1"]), MEASURED)
        z1, h = rows["z1"][chosen], rows.get("h", rows["z1"])[chosen]
        if not bool(torch.isfinite(h).all()):
            return {"effective_rank": math.nan}
        rank = entropy_rank(moments(h, groups=1).singular_values(), epsilon=EPSILON)
        found = {"effective_rank": rank, "uniformity": float(uniformity(z1))}
        if "z2" in rows and rows["z2"].shape == rows["z1"].shape:
            found["alignment"] = float(alignment(z1, rows["z2"][chosen]))
        return found

    def _warn(self, numbers: Mapping[str, float]) -> None:
        """Say at once what cannot wait for the page."""
        if not math.isfinite(numbers.get("loss", 0.0)):
            warnings.warn(f"Step {self.step}: the loss is {numbers['loss']}; training has diverged.")
        rank = numbers.get("effective_rank")
        if rank is not None and (math.isnan(rank) or rank < COLLAPSED):
            warnings.warn(f"Step {self.step}: the embeddings have collapsed (effective rank {rank:.2f}).")


def _finite(numbers: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in numbers.items() if math.isfinite(value)}

"""Callbacks: the watcher in the trainers of Lightning and Hugging Face, by one line."""

import importlib
import sys
from pathlib import Path
from typing import Any

from vergence.integrations.capture import Capture, objective_of, parts_of
from vergence.integrations.watcher import Watcher


def watch(trainer: Any, run: str | Path = "runs/watched", **options: Any) -> Any:
    """Put the doctor into a trainer of Lightning or Hugging Face (sentence-transformers too): the one line to add.

    ``every`` is the number of steps between measurements; ``embeddings`` the name of the module whose outputs are
    compared, where it is not called as usual; ``objective`` and its hyperparameters place the loss on its scale.
    """
    if hasattr(trainer, "callback_handler"):
        made = trainer_callback(run, **options)
        trainer.add_callback(made)
        listed = trainer.callback_handler.callbacks
        listed.insert(0, listed.pop())  # before those that write logs, so that they write ours
        return made
    if hasattr(trainer, "callbacks") and hasattr(trainer, "fit"):
        made = lightning_callback(run, **options)
        trainer.callbacks.append(made)
        return made
    raise ValueError(f"Expected a trainer of Lightning or Hugging Face, got {type(trainer).__name__}; see Watcher.")


def lightning_callback(run: str | Path = "runs/watched", *, embeddings: str | None = None, **options: Any) -> Any:
    """A callback for ``lightning.Trainer(callbacks=[...])``: numbers in its logger, a page at the end."""
    library = _first("lightning.pytorch", "pytorch_lightning")

    class Doctor(library.Callback):  # type: ignore[misc, name-defined]
        """The watcher between the steps of a LightningModule."""

        def on_fit_start(self, trainer: Any, module: Any) -> None:
            self.capture = Capture(*parts_of(module, embeddings))
            known = {**objective_of(module), **options}
            self.watcher = Watcher(run, tell=lambda numbers, step: _log(trainer, numbers), **known)
            self.leads = bool(trainer.is_global_zero)

        def on_train_batch_start(self, trainer: Any, module: Any, batch: Any, index: int) -> None:
            self.capture.active = self.leads and self.watcher.wants_embeddings()

        def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any, index: int) -> None:
            if not self.leads:
                return
            loss = outputs["loss"] if isinstance(outputs, dict) else outputs
            made = self.capture.take()
            self.watcher(loss, made.pop("z1", None), made.pop("z2", None), **made)

        def on_fit_end(self, trainer: Any, module: Any) -> None:
            self.capture.remove()
            if self.leads:
                self.results = self.watcher.close()

    return Doctor()


def _log(trainer: Any, numbers: Any) -> None:
    for logger in trainer.loggers:
        logger.log_metrics(dict(numbers), step=trainer.global_step)


def trainer_callback(run: str | Path = "runs/watched", *, embeddings: str | None = None, **options: Any) -> Any:
    """A callback for ``transformers.Trainer`` and ``SentenceTransformerTrainer``; :func:`watch` adds it in front."""
    library = importlib.import_module("transformers")

    class Doctor(library.TrainerCallback):  # type: ignore[misc, name-defined]
        """The watcher between the steps of a Hugging Face Trainer; numbers go out with its own log."""

        def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
            self.waiting: dict[str, float] = {}
            module = getattr(model, "module", model)
            self.capture = Capture(*((module, None) if embeddings is None else parts_of(module, embeddings)))
            self.watcher = Watcher(run, tell=lambda numbers, step: self.waiting.update(numbers), **options)
            self.leads = bool(state.is_world_process_zero)
            self.loss: float | None = None

        def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self.capture.active = self.leads and self.watcher.wants_embeddings()

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if self.leads:
                made = self.capture.take()
                self.watcher(self.loss, made.pop("z1", None), made.pop("z2", None), **made)

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            if logs is not None:
                self.loss = float(logs["loss"]) if "loss" in logs else self.loss
                for place in (logs, *state.log_history[-1:]):  # what the loggers write, and what the trainer remembers
                    place.update(self.waiting)
                self.waiting.clear()

        def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self.capture.remove()
            if self.leads:
                self.results = self.watcher.close()

    return Doctor()


def _first(*names: str) -> Any:
    """The first of these libraries that is imported already, or that can be."""
    for name in (*(name for name in names if name in sys.modules), *names):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise ImportError(f"This callback needs {' or '.join(names)}: pip install lightning.")

"""Where the numbers of a run go besides its log: TensorBoard, Weights & Biases, trackio, MLflow.

A row of TRACKERS opens a place and gives a function that is told every row of the log. The log is the record: a
resumed run repeats steps that were told before, to the bit, so no place hears of a step twice.
"""

import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from importlib import import_module
from typing import Any

from vergence.runs.run import Run, remove
from vergence.tables import Table

PROJECT = "vergence"
LIBRARIES = ("wandb", "trackio", "mlflow")  # trackers that are packages of the same name
IDENTITIES = "tracking.json"  # under which name each service knows the run

Tell = Callable[[int, Mapping[str, float]], None]


@contextmanager
def tracked(run: Run, names: Sequence[str], *, told: int = 0) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """A function that passes a row of the log to every named tracker; steps up to ``told`` were passed on before."""
    with ExitStack() as stack:
        trackers = [stack.enter_context(TRACKERS[name](run, told=told)) for name in names]

        def tell(row: Mapping[str, Any]) -> None:
            numbers = {name: float(value) for name, value in row.items() if name != "step"}
            for tracker in trackers:
                tracker(row["step"], numbers)

        yield tell


@contextmanager
def tensorboard(run: Run, *, told: int = 0) -> Iterator[Tell]:
    """TensorBoard event files in the run directory: ``tensorboard --logdir RUN``.

    They are made anew from the log when a run is resumed, and written at once: the queue of the usual writer loses
    points when it is killed and waits for ever when the disk is full.
    """
    from tensorboardX.event_file_writer import EventsWriter
    from tensorboardX.proto.event_pb2 import Event
    from tensorboardX.proto.summary_pb2 import Summary

    folder = run.path / "tensorboard"
    remove(folder)
    folder.mkdir()
    writer = EventsWriter(str(folder / "events"))

    def tell(step: int, numbers: Mapping[str, float]) -> None:
        values = [Summary.Value(tag=name, simple_value=value) for name, value in numbers.items()]
        writer.write_event(Event(wall_time=time.time(), step=step, summary=Summary(value=values)))
        writer.flush()

    with closing(writer):
        for row in run.rows():
            tell(row["step"], {name: value for name, value in row.items() if name != "step"})
        yield tell


@contextmanager
def wandb(run: Run, *, told: int = 0) -> Iterator[Tell]:
    """Weights & Biases; WANDB_MODE=offline keeps the points in the run directory."""
    library = _imported("wandb")
    name = _identity(run, "wandb", lambda: uuid.uuid4().hex)
    place = {"project": PROJECT, "name": run.path.name, "dir": str(run.path), "id": name, "resume": "allow"}
    session = library.init(**place, config=run.config.settings())
    try:
        yield _after(told, lambda step, numbers: session.log(dict(numbers), step=step))
    finally:
        session.finish()


@contextmanager
def trackio(run: Run, *, told: int = 0) -> Iterator[Tell]:
    """trackio, the local dashboard: ``trackio show``."""
    library = _imported("trackio")
    name = _identity(run, "trackio", lambda: f"{run.path.name}-{uuid.uuid4().hex[:8]}")
    library.init(project=PROJECT, name=name, config=run.config.settings(), resume="allow")
    try:
        yield _after(told, lambda step, numbers: library.log(dict(numbers), step=step))
    finally:
        library.finish()


@contextmanager
def mlflow(run: Run, *, told: int = 0) -> Iterator[Tell]:
    """MLflow, at MLFLOW_TRACKING_URI or else in a database in the run directory."""
    library = _imported("mlflow")
    # MLflow 3 refuses its old store of plain files.
    library.set_tracking_uri(os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{run.path.resolve()}/mlflow.db")
    library.set_experiment(PROJECT)
    known = (run.read_json(IDENTITIES) or {}).get("mlflow")
    session = library.start_run(run_id=known, run_name=None if known else run.path.name)
    if _identity(run, "mlflow", lambda: session.info.run_id) != known:
        library.log_params(run.config.settings())
    try:
        yield _after(told, lambda step, numbers: library.log_metrics(dict(numbers), step=step))
    finally:
        library.end_run()


TRACKERS = Table(
    "tracker", {"tensorboard": tensorboard, "wandb": wandb, "trackio": trackio, "mlflow": mlflow}, room="trackers"
)


def check_trackers(names: Sequence[str]) -> None:
    """Refuse a service whose library is not installed."""
    for name in names:
        if name in LIBRARIES:
            _imported(name)


def _after(told: int, tell: Tell) -> Tell:
    """``tell`` for the steps that a service has not heard of yet."""
    return lambda step, numbers: tell(step, numbers) if step > told else None


def _identity(run: Run, service: str, new: Callable[[], str]) -> str:
    """The name under which a service knows the run, made on the first call and kept in the run directory."""
    known = run.read_json(IDENTITIES) or {}
    if service not in known:
        known[service] = new()
        run.write_json(IDENTITIES, known)
    return known[service]


def _imported(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(f"--track {name} needs {name}: pip install 'vergence[{name}]'") from error

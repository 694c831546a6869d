"""Trackers hear every row of the log once, also over kills and resumes."""

import struct
import sys
from types import SimpleNamespace

import pytest

from vergence.config import Config
from vergence.runs.run import Run
from vergence.runs.tracking import TRACKERS, tracked


@pytest.fixture
def run(tmp_path):
    return Run.create(tmp_path / "first", Config())


def row(step: int) -> dict[str, float]:
    return {"step": step, "epoch": step / 4, "loss": 1 / step}


class Library:
    """A stand-in for wandb, trackio and MLflow: it remembers what it was asked to do."""

    def __init__(self):
        self.asked: list[tuple[str, dict]] = []
        self.points: list[int] = []
        self.info = SimpleNamespace(run_id="run-of-mlflow")

    def __getattr__(self, name):
        def answer(*arguments, **options):
            if name in ("log", "log_metrics"):
                self.points.append(options["step"])
            self.asked.append((name, options))
            return self

        return answer

    def options(self, name: str) -> list[dict]:
        return [options for asked, options in self.asked if asked == name]


@pytest.fixture(params=["wandb", "trackio", "mlflow"])
def service(request, monkeypatch):
    library = Library()
    monkeypatch.setitem(sys.modules, request.param, library)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return request.param, library


def test_a_service_hears_every_step_once_although_a_resumed_run_repeats_some(run, service):
    name, library = service
    with tracked(run, [name]) as tell:
        for step in (1, 2, 3):
            tell(row(step))
    with tracked(run, [name], told=3) as tell:
        for step in (2, 3, 4, 5):
            tell(row(step))
    assert library.points == [1, 2, 3, 4, 5]


def test_a_service_is_closed_also_after_an_error(run, service):
    name, library = service
    with pytest.raises(KeyError, match="step"), tracked(run, [name]) as tell:
        tell({"loss": 1.0})
    assert library.asked[-1][0] in ("finish", "end_run")


def test_a_resumed_run_is_the_same_run_to_a_service(run, service):
    name, library = service
    for told in (0, 1):
        with tracked(run, [name], told=told):
            pass
    place = {"wandb": "id", "trackio": "name", "mlflow": "run_id"}[name]
    first, second = library.options("start_run" if name == "mlflow" else "init")
    assert second[place] == (library.info.run_id if name == "mlflow" else first[place])


def test_another_run_is_another_run_to_a_service(run, tmp_path, monkeypatch):
    library = Library()
    monkeypatch.setitem(sys.modules, "wandb", library)
    for place in (run, Run.create(tmp_path / "second", Config())):
        with tracked(place, ["wandb"]):
            pass
    first, second = library.options("init")
    assert first["id"] != second["id"]


def test_mlflow_writes_to_a_database(run, monkeypatch):
    library = Library()
    addresses = []
    monkeypatch.setitem(sys.modules, "mlflow", library)
    monkeypatch.setattr(library, "set_tracking_uri", addresses.append, raising=False)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with tracked(run, ["mlflow"]):
        pass
    assert addresses == [f"sqlite:///{run.path}/mlflow.db"]


@pytest.mark.parametrize("name", ["wandb", "trackio", "mlflow"])
def test_a_missing_library_is_named_with_its_extra(run, name, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=rf"pip install 'vergence\[{name}\]'"), tracked(run, [name]):
        pass


def points(run: Run) -> list[tuple[int, str, float]]:
    """Every scalar in the event files of a run: each record is a length, its checksum, an event and its checksum."""
    from tensorboardX.proto.event_pb2 import Event

    found = []
    for path in (run.path / "tensorboard").iterdir():
        data = path.read_bytes()
        while data:
            (length,) = struct.unpack("<Q", data[:8])
            event = Event.FromString(data[12 : 12 + length])
            found += [(event.step, value.tag, value.simple_value) for value in event.summary.value]
            data = data[16 + length :]
    return found


def test_event_files_hold_the_log_and_nothing_twice_after_a_resume(run):
    with tracked(run, ["tensorboard"]) as tell:
        for step in (1, 2, 3):
            run.log(row(step))
            tell(row(step))
    run.rewind(2, keep=2)
    with tracked(run, ["tensorboard"], told=3) as tell:
        for step in (3, 4):
            run.log(row(step))
            tell(row(step))
    losses = [(step, value) for step, name, value in points(run) if name == "loss"]
    assert [step for step, _ in losses] == [1, 2, 3, 4]
    assert [value for _, value in losses] == pytest.approx([row["loss"] for row in run.rows()])


def test_the_config_names_trackers_and_explains_others():
    assert Config(track=()).track == ()
    with pytest.raises(ValueError, match=r"Unknown tracker 'wandbb'.*Did you mean 'wandb'"):
        Config(track=("wandbb",))
    assert set(TRACKERS) == {"tensorboard", "wandb", "trackio", "mlflow"}

"""Rows of METHODS validate themselves, before any data are read."""

from pathlib import Path

import numpy as np
import pytest
import torch

from vergence.cli import main
from vergence.config import Config, Optim, method_options
from vergence.data import from_arrays
from vergence.diagnostics import SCALES, diagnose
from vergence.methods import METHODS, Method, customized
from vergence.runs.assembly import settle


@pytest.mark.parametrize("name", list(METHODS))
def test_every_row_says_its_structure_and_cites_a_paper_we_list(name):
    row = METHODS[name]
    assert (row.objective or row.learner) in row.describe()
    bibliography = Path("references.bib").read_text(encoding="utf-8")
    assert f"{{{row.paper}," in bibliography


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"objective": "nt_xent", "queue": 8, "target": "momentum"}, "takes no negatives"),
        ({"objective": "info_nce", "queue": 8}, "needs target='momentum'"),
        ({"objective": "info_nce", "momentum": 1.5}, "between 0 and 1"),
        ({"objective": "negative_cosine", "target": "detached"}, "collapses"),
        ({"objective": "negative_cosine", "predictor": (8,)}, "query branch only"),
        ({"objective": "nt_xent", "hyperparameters": {"temprature": 1.0}}, "Did you mean 'temperature'"),
        ({"objective": "two_modal", "learner": "two_modal", "projector": ()}, "meet in the space of their projectors"),
        ({"objective": "nt_xen"}, "Did you mean 'nt_xent'"),
        ({"objective": "info_nce", "target": "frozen"}, "online, detached or momentum"),
        ({"objective": "info_nce", "queue": -1}, "negative"),
        ({"objective": "nt_xent", "learner": "two_vew"}, "Did you mean 'two_view'"),
        ({"objective": "nt_xent", "hyperparameters": {"critic": "concat"}}, "hyperparameter of nt_xent 'critic'"),
        ({"objective": None, "learner": "infomax", "hyperparameters": {"critic": "bilnear"}}, "mean 'bilinear'"),
    ],
)
def test_an_impossible_row_is_refused_when_it_is_built(unchecked, fields, message):
    with pytest.raises(ValueError, match=message):
        Method(paper="nobody2026", **fields)


def test_overrides_replace_what_the_row_says_and_nothing_else():
    row = customized("moco", heads={"queue": 512, "projector": [64, 32]}, objective={"temperature": 0.2})
    assert row.queue == 512
    assert row.projector == (64, 32)
    assert row.hyperparameters["temperature"] == 0.2
    assert row.momentum == METHODS["moco"].momentum


def test_a_method_without_heads_refuses_them():
    with pytest.raises(ValueError, match="rotation has no heads, so there is no projector"):
        customized("rotation", heads={"projector": (8,)}, objective={})


def test_a_queue_smaller_than_the_batch_is_refused_before_any_data_are_read():
    with pytest.raises(ValueError, match="A queue of 8 cannot hold a batch of 16 keys"):
        Config(data="nowhere", method="moco", heads={"queue": 8}, batch=16)


def test_an_unknown_method_names_the_nearest():
    with pytest.raises(ValueError, match=r"Unknown method 'simclrv2'.*Did you mean 'simclr'"):
        METHODS["simclrv2"]


@pytest.mark.parametrize("name", ["simclr", "vicreg"])
def test_a_run_records_and_the_help_shows_the_rate_of_the_method(name, capsys):
    samples, rate = from_arrays(np.zeros((8, 4), dtype=np.float32)), METHODS[name].learning_rate
    assert settle(Config(data="memory", method=name), samples).optim.learning_rate == rate
    given = Config(data="memory", method=name, optim=Optim(learning_rate=0.1))
    assert settle(given, samples).optim.learning_rate == 0.1
    with pytest.raises(SystemExit):
        main(["train", "--method", name, "--help"])
    shown = capsys.readouterr().out.split("--optim.learning-rate")[1].split("--optim.weight-decay")[0]
    assert f"{rate})" in shown


@pytest.mark.parametrize("name", [name for name, row in METHODS.items() if row.objective in SCALES])
def test_a_diagnosis_takes_what_the_loss_of_any_row_is_read_with(name):
    settled = method_options(name)["objective"]  # as a run records it, with every default written out
    reading = customized(name, heads={}, objective=settled).reading()
    h = torch.randn(32, 8)
    options = {"objective": METHODS[name].objective, "loss": 1.0, "batch": 16, "seed": 1}
    found = diagnose(h, z1=h, z2=h, faults={}, diagnostics={}, **options, **reading)
    assert found.measured == {}

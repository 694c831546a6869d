"""Rows from outside: of an installed package, by a dotted name, as objects; in help, runs, resume and processes."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
import yaml
from torch import nn

import vergence as vg
from outside_package import VERSION, installed
from vergence import tables


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return installed(tmp_path_factory.mktemp("zoo"))


def vergence(site, *arguments, **environment):
    """A command in a process that has the package installed."""
    variables = {
        **os.environ,
        "PYTHONPATH": f"{site}:{os.environ.get('PYTHONPATH', '')}",
        "COLUMNS": "120",
        **environment,
    }
    command = [sys.executable, "-m", "vergence", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=variables)


ALL = (
    "--data", "zoo_blobs", "--method", "zoo_clr", "--encoder", "zoo_net", "--views", "zoo_noise",
    "--objective", "zoo_loss", "--objective.push", "0.5", "--backbone.hidden", "12", "--view.level", "0.2",
    "--track", "zoo_file", "--batch", "16",
)  # fmt: skip


def test_every_kind_of_row_of_an_installed_package_trains_together(site, tmp_path):
    done = vergence(site, "train", *ALL, "--epochs", "2", "--run", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    recorded = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert recorded["backbone"] == {"hidden": 12, "bend": 0.1}
    assert recorded["view"] == {"level": 0.2}
    assert recorded["objective"] == {"name": "zoo_loss", "push": 0.5}
    assert recorded["origins"]["encoders"] == f"vergence_zoo.rows:small_net of vergence_zoo {VERSION}"
    assert set(recorded["origins"]) == {"data", "methods", "encoders", "views", "objectives"}
    assert (tmp_path / "run" / "zoo.txt").read_text().count("\n") == 10
    again = vergence(site, "train", "--run", tmp_path / "run", "--resume")
    assert again.returncode == 0, again.stderr


def test_a_run_of_outside_rows_is_resumed_by_two_processes(site, tmp_path):
    done = vergence(site, "train", *ALL, "--epochs", "1", "--run", tmp_path / "run", "--devices", "2")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "report.html").exists()


def test_help_shows_the_options_of_outside_rows_with_their_meaning(site):
    shown = vergence(site, "train", "--encoder", "vergence_zoo.rows:small_net", "--views", "zoo_noise",
                     "--objective", "vergence_zoo.rows:square_loss", "--help").stdout  # fmt: skip
    for text in ("--backbone.hidden", "width of the hidden layer", "--view.level", "standard deviation of the noise",
                 "--objective.push", "weight of the repulsion"):  # fmt: skip
        assert text in shown
    listed = vergence(site, "list", "encoders").stdout
    assert f"zoo_net           from vergence_zoo.rows:small_net of vergence_zoo {VERSION}" in listed


def test_a_wrong_option_of_an_outside_row_is_refused_with_the_nearest_name(site, tmp_path):
    (tmp_path / "run.yaml").write_text("encoder: vergence_zoo.rows:small_net\nbackbone: {hiden: 3}\n")
    refused = vergence(site, "train", "--config", tmp_path / "run.yaml", "--run", tmp_path / "run")
    assert refused.returncode == 2
    assert "Did you mean 'hidden'?" in refused.stderr
    unknown = vergence(site, "train", "--encoder", "vergence_zoo.rows:smal_net", "--run", tmp_path / "run")
    assert "Did you mean 'small_net'?" in unknown.stderr
    assert "Known:" in vergence(site, "train", "--encoder", "no_such_package:net").stderr


def test_the_doctor_measures_with_the_diagnostics_of_installed_packages(site, tmp_path):
    np.save(tmp_path / "h.npy", 2 * np.random.default_rng(0).normal(size=(200, 8)).astype(np.float32))
    shown = vergence(site, "doctor", tmp_path / "h.npy", "--json").stdout
    assert '"zoo_spread"' in shown


def test_an_estimator_of_an_installed_package_estimates(site, tmp_path):
    for name in "xy":
        np.save(tmp_path / f"{name}.npy", np.random.default_rng(0).normal(size=(50, 2)))
    shown = vergence(site, "information", tmp_path / "x.npy", tmp_path / "y.npy", "--bound", "zoo_guess")
    assert "0.5" in shown.stdout, shown.stderr


# From Python


class MyNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 12)

    def forward(self, x):
        return self.layer(x.flatten(1)).relu()


def my_loss(z1, z2, *, power: float = 2.0):
    """The distance of positives to a power, less the spread of each view."""
    return ((z1 - z2).norm(dim=1) ** power).mean() - z1.std(0).mean() - z2.std(0).mean()


def my_transform(image):
    return image + 0.1 * torch.randn_like(image)


def test_objects_are_trained_and_the_run_says_where_they_came_from(tmp_path):
    vg.train(data="digits", limit=200, encoder=MyNet(), objective=my_loss, views=my_transform, epochs=1, batch=32,
             run=tmp_path / "run", quiet=True)  # fmt: skip
    recorded = vg.Run(tmp_path / "run").config
    assert recorded.encoder == "object:MyNet"
    assert recorded.origins["encoders"] == "given from Python"
    h = vg.load(tmp_path / "run").encode(np.zeros((3, 8, 8), np.uint8))
    assert h.shape == (3, 12)


def test_a_run_of_an_object_is_resumed_with_the_object_and_refused_without(tmp_path):
    net = MyNet()
    options = {"data": "digits", "limit": 200, "encoder": net, "epochs": 1, "batch": 32, "quiet": True}
    vg.train(**options, run=tmp_path / "run")
    vg.train(**options, run=tmp_path / "run", resume=True)
    refused = vergence("", "train", "--run", tmp_path / "run", "--resume")
    assert refused.returncode == 2
    assert "package.module:name" in refused.stderr


def test_the_same_transform_gives_the_same_view_in_any_batch():
    recipe = vg.views.from_callable(my_transform)
    x, keys = torch.rand(4, 1, 8, 8), vg.views.sample_keys(0, 0, torch.arange(4))
    whole = recipe.view(x, keys)
    torch.testing.assert_close(recipe.view(x[2:], keys[2:]), whole[2:], rtol=0, atol=0)
    assert not torch.equal(recipe.view(x, keys, number=1), whole)


def test_an_estimator_takes_objects():
    x = np.random.default_rng(0).random((60, 64)).astype(np.float32)
    fitted = vg.ContrastiveEncoder(encoder=MyNet(), objective=my_loss, epochs=1, batch=16, random_state=0).fit(x)
    assert fitted.transform(x).shape == (60, 12)


def test_an_importable_object_is_known_by_its_name_and_others_in_this_process_only():
    assert tables.name_of("objectives", vg.objectives.nt_xent) == "vergence.objectives.contrastive:nt_xent"
    given = tables.name_of("encoders", nn.Identity())
    assert given.startswith("object:Identity")
    assert tables.is_given(given)

"""The watcher in a bare loop: numbers now and then, a page at the end, and nothing in between."""

import json

import pytest
import torch
from torch import nn

from vergence.diagnostics import thermometer
from vergence.integrations import Watcher
from vergence.integrations.capture import Capture, objective_of, parts_of, rows_of
from vergence.objectives import nt_xent


def pairs(n=32, d=8, seed=0):
    generator = torch.Generator().manual_seed(seed)
    z1 = torch.randn(n, d, generator=generator)
    return z1, z1 + 0.1 * torch.randn(n, d, generator=generator)


def test_a_loop_gets_its_numbers_and_its_page(tmp_path, capsys):
    told = []
    watcher = Watcher(
        tmp_path / "run", objective="nt_xent", temperature=0.5, every=4, tell=lambda n, step: told.append((step, n))
    )
    for step in range(8):
        z1, z2 = pairs(seed=step)
        loss = nt_xent(z1, z2, temperature=0.5)
        found = watcher(loss, z1, z2)
        assert bool(found) == (step in (3, 7))
    assert [step for step, _ in told] == [4, 8]
    mean = sum(float(nt_xent(*pairs(seed=step), temperature=0.5)) for step in range(4, 8)) / 4
    expected = thermometer("nt_xent", n=32, d=8, loss=mean, temperature=0.5).position
    assert told[1][1]["vergence/thermometer"] == pytest.approx(expected, abs=1e-5)
    assert 5 < told[1][1]["vergence/effective_rank"] <= 8
    results = watcher.close()
    assert results.thermometer.loss == pytest.approx(mean, abs=1e-5)
    assert (tmp_path / "run" / "report.html").exists()
    log = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert [row["step"] for row in log] == [4, 8]
    assert "Page: " in capsys.readouterr().out


@pytest.mark.parametrize(("steps", "label"), [(20, "cannot tell"), (200, "faulty")])
def test_views_that_do_not_match_are_a_fault_only_after_some_training(tmp_path, steps, label):
    watcher = Watcher(tmp_path, every=steps)
    for step in range(steps):
        (z1, _), (_, z2) = pairs(seed=2 * step), pairs(seed=2 * step + 1)
        watcher(1.0, z1, z2)
    found = watcher.close()
    assert found.verdict.label == label
    assert ("shuffled pairs" in found.faults) == (label == "faulty")


def test_embeddings_are_kept_only_before_a_measurement():
    watcher = Watcher(every=100, rows=64)
    z1, z2 = pairs()
    watcher(torch.tensor(1.0), z1, z2)  # the first step tells the size of the batch
    wanted = []
    for _ in range(99):
        wanted.append(watcher.wants_embeddings())
        watcher(torch.tensor(1.0), z1, z2)
    assert wanted == [False] * 97 + [True] * 2
    assert sum(len(part["z1"]) for part in watcher._kept) >= 64


def test_collapse_and_divergence_are_said_at_once():
    watcher = Watcher(every=1)
    with pytest.warns(UserWarning, match="have collapsed"):
        watcher(1.0, torch.ones(16, 4), torch.ones(16, 4))
    with pytest.warns(UserWarning, match="has diverged"):
        watcher(float("nan"), *pairs())


def test_a_loop_without_embeddings_ends_without_a_page(tmp_path):
    watcher = Watcher(tmp_path / "run", every=2)
    watcher(1.0)
    with pytest.warns(UserWarning, match="No page: 0 embeddings"):
        assert watcher.close() is None
    with pytest.raises(ValueError, match="Unknown"):
        Watcher(objective="nt_xnt")
    with pytest.raises(ValueError, match="every must be at least 1"):
        Watcher(every=0)


class NTXentLoss(nn.Module):
    """As lightly's: a temperature, and a memory bank whose size may be 0."""

    def __init__(self, size):
        super().__init__()
        self.temperature = 0.1
        self.memory_bank = nn.Module()
        self.memory_bank.size = size


class Theirs(nn.Module):
    def __init__(self, size=(0,)):
        super().__init__()
        self.backbone, self.projection_head = nn.Linear(4, 6), nn.Linear(6, 3)
        self.criterion = NTXentLoss(size)

    def forward(self, x):
        return self.projection_head(self.backbone(x))


@pytest.mark.parametrize("together", [False, True])
def test_the_outputs_of_a_head_are_the_two_views(together):
    module = Theirs()
    capture = Capture(*parts_of(module))
    x1, x2 = torch.randn(5, 4), torch.randn(5, 4)
    module(x1)
    assert capture.take() == {}  # not asked to look
    capture.active = True
    if together:
        module(torch.cat([x1, x2]))
    else:
        module(x1), module(x2)
    found = capture.take()
    torch.testing.assert_close(found["z1"], module(x1).detach())
    torch.testing.assert_close(found["z2"], module(x2).detach())
    torch.testing.assert_close(found["h"], module.backbone(x1).detach())
    capture.remove()
    capture.take()
    module(x1)
    assert capture.take() == {}


def test_lightlys_loss_is_known_unless_it_has_a_memory():
    assert objective_of(Theirs()) == {"objective": "nt_xent", "temperature": 0.1}
    assert objective_of(Theirs(size=(4096, 3))) == {}
    with pytest.raises(ValueError, match="no module 'neck'"):
        parts_of(Theirs(), "neck")


def test_rows_are_found_in_what_libraries_give():
    states = torch.randn(2, 5, 3)
    torch.testing.assert_close(rows_of({"sentence_embedding": states[:, 0]}), states[:, 0])
    torch.testing.assert_close(rows_of({"last_hidden_state": states}), states.mean(1))
    assert rows_of("text") is None
    assert rows_of(torch.tensor(1.0)) is None

"""Entropies of prototypes: the two collapses of DINO and SwAV are told apart from a clustering and from each other."""

import math

import pytest
import torch

from vergence.diagnostics import diagnose, measure

K = 16


def run(kind: str, n: int = 256) -> dict[str, torch.Tensor]:
    """Scores of two views with K prototypes, and the representations behind them."""
    generator = torch.Generator().manual_seed(0)
    own = torch.arange(n) % K
    noise = 0.02 * torch.randn(2, n, K, generator=generator)
    scores = {
        "clusters": torch.eye(K)[own],
        "uniform": 1e-4 * torch.eye(K)[own],
        "one": 0.9 * torch.eye(K)[torch.zeros_like(own)] + 1e-3 * torch.eye(K)[own],
    }[kind]
    h = torch.eye(K)[own] + 0.3 * torch.randn(n, K, generator=generator)
    scale = 1.0 if kind == "clusters" else 1e-3
    return {"h": h, "z1": scores + scale * noise[0], "z2": scores + scale * noise[1]}


@pytest.mark.parametrize("objective", ["swav", "dino"])
def test_a_clustering_is_sure_and_uses_its_prototypes(objective):
    found = measure(**run("clusters"), objective=objective, hyperparameters={})
    assert found["teacher_entropy"].value["value"] < 0.1
    assert found["prototypes_used"].value["value"] == pytest.approx(K, rel=0.05)
    assert found["student_entropy"].value["most"] == pytest.approx(math.log(K))
    faults = diagnose(**run("clusters"), objective=objective).findings
    assert not [finding for finding in faults if finding.fault == "prototype collapse"]


def test_a_collapse_to_uniform_has_the_entropy_log_k_and_is_a_fault():
    found = diagnose(**run("uniform"), objective="dino")
    assert found.measured["teacher_entropy"].value["value"] == pytest.approx(math.log(K), rel=0.01)
    assert "prototype collapse" in [finding.fault for finding in found.findings]


def test_codes_without_contrast_are_sharpened_by_epsilon_which_dino_has_not():
    advised = {
        objective: next(
            finding.override
            for finding in diagnose(**run("uniform"), objective=objective).findings
            if finding.fault == "prototype collapse"
        )
        for objective in ("swav", "dino")
    }
    assert advised == {"swav": "--objective.epsilon 0.01", "dino": None}
    sharp = diagnose(**run("uniform"), objective="swav", epsilon=0.01).findings
    assert {finding.override for finding in sharp if finding.fault == "prototype collapse"} == {None}


def test_other_objectives_have_no_prototypes():
    found = measure(**run("clusters"), objective="nt_xent", hyperparameters={})
    assert "teacher_entropy" not in found


@pytest.mark.parametrize(("objective", "collapsed"), [("swav", False), ("dino", False), ("nt_xent", True)])
def test_scores_with_more_prototypes_than_the_projector_has_columns_have_not_collapsed(objective, collapsed):
    generator = torch.Generator().manual_seed(0)
    projected = torch.nn.functional.normalize(torch.randn(256, 16, generator=generator), dim=1)
    prototypes = torch.nn.functional.normalize(torch.randn(128, 16, generator=generator), dim=1)
    views = [projected + 0.02 * torch.randn(256, 16, generator=generator) for _ in range(2)]
    z1, z2 = (view @ prototypes.T for view in views)
    found = diagnose(torch.randn(256, 32, generator=generator), z1=z1, z2=z2, objective=objective)
    assert ("dimensional collapse" in [finding.fault for finding in found.findings]) == collapsed

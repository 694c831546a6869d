"""Objective: a function with its hyperparameters, some of them learned."""

import pytest
import torch

from vergence.objectives import Objective, info_nce, nt_xent, two_modal


def pair():
    z1, z2 = torch.randn(2, 6, 4, generator=torch.Generator().manual_seed(0))
    return z1, z2


def test_it_is_the_function_with_its_hyperparameters():
    z1, z2 = pair()
    torch.testing.assert_close(Objective("nt_xent", temperature=0.3)(z1, z2), nt_xent(z1, z2, temperature=0.3))
    torch.testing.assert_close(Objective(nt_xent)(z1, z2), nt_xent(z1, z2))
    assert list(Objective("nt_xent").parameters()) == []


def test_negatives_are_given_with_the_embeddings():
    z1, z2 = pair()
    torch.testing.assert_close(Objective("info_nce")(z1, z2, negatives=z1), info_nce(z1, z2, negatives=z1))


def test_a_learnable_temperature_starts_at_its_value_and_has_the_true_gradient():
    z1, z2 = pair()
    objective = Objective("two_modal", learnable=("temperature",), temperature=0.5)
    objective(z1, z2).backward()
    step = 1e-3
    high, low = (
        two_modal(z1.double(), z2.double(), temperature=0.5 * torch.tensor(s).exp().item()) for s in (step, -step)
    )
    (parameter,) = objective.parameters()
    torch.testing.assert_close(parameter.grad.item(), ((high - low) / (2 * step)).item(), rtol=1e-3, atol=1e-5)


def test_a_learnt_temperature_falls_while_pairs_are_easy_and_stops_at_one_hundredth():
    z = torch.eye(6)
    objective = Objective("two_modal", learnable=("temperature",), temperature=0.5)
    solver = torch.optim.SGD(objective.parameters(), lr=1.0)
    for _ in range(50):
        solver.zero_grad()
        objective(z, z).backward()
        solver.step()
    assert objective.learned()["temperature"] < 0.3
    with torch.no_grad():
        objective.logarithms["temperature"].fill_(-50.0)
    assert objective.learned()["temperature"].item() == pytest.approx(0.01)
    assert torch.isfinite(objective(z, z))


def test_a_wrong_name_is_explained():
    with pytest.raises(ValueError, match=r"Unknown objective 'ntxent'.*Did you mean 'nt_xent'"):
        Objective("ntxent")
    with pytest.raises(ValueError, match=r"nt_xent has no hyperparameter tau. Known: \['temperature'\]"):
        Objective("nt_xent", tau=0.1)
    with pytest.raises(ValueError, match="learnable 'margin'"):
        Objective("nt_xent", learnable=("margin",))


def test_it_says_what_it_is():
    assert "two_modal, temperature=0.07, learnable" in repr(Objective("two_modal", learnable=("temperature",)))

"""What a run's own curves suggest: curves with known limits, and pairs with known shares."""

import numpy as np
import pytest
import torch

from vergence.diagnostics.extrapolation import batch_worth, epochs_worth
from vergence.diagnostics.recommendations import _longer


@pytest.mark.parametrize("power", [0.6, 1.0])
def test_the_limit_and_the_length_of_a_known_curve_are_found(power):
    epochs = np.arange(1, 31)
    limit, length = epochs_worth(3.0 + 2.0 * epochs**-power)
    assert limit.value == pytest.approx(3.0, abs=0.02)
    assert length.value == pytest.approx(10 ** (1 / power), rel=0.05)


def test_intervals_hold_the_truth_of_noisy_curves_about_as_often_as_they_say():
    random, epochs, held = np.random.default_rng(0), np.arange(1, 41), 0
    for _ in range(60):
        limit, _ = epochs_worth(3.0 + 2.0 * epochs**-0.7 + random.normal(0, 0.02, 40))
        held += limit.low <= 3.0 <= limit.high
    assert held >= 50


@pytest.mark.parametrize(
    "losses", [np.ones(3), np.linspace(1, 2, 20), np.array([2.0, 1.5, np.nan, 1.2, 1.1, 1.0, 0.9])]
)
def test_a_curve_that_is_short_rising_or_broken_leads_nowhere(losses):
    assert epochs_worth(losses) is None


def test_advice_names_the_epochs_of_this_curve():
    epochs = np.arange(1, 21)
    (advice,) = _longer((3.0 + 2.0 * epochs**-0.5).tolist())
    assert int(advice["override"].removeprefix("--epochs ")) == 100
    assert "more than 100 epochs" in advice["sentence"]
    (advice,) = _longer((3.0 + 2.0 * epochs**-0.7).tolist())
    assert 25 <= int(advice["override"].removeprefix("--epochs ")) <= 30
    assert "between" in advice["sentence"].split("About")[1]
    assert list(_longer((3.0 + 2.0 * epochs**-2.0).tolist())) == []


def test_easy_negatives_ask_for_a_larger_batch_and_hard_ones_do_not():
    torch.manual_seed(0)
    z = torch.nn.functional.normalize(torch.randn(800, 8), dim=1)
    near = z + 0.12 * torch.randn(800, 8)
    matched, batch = batch_worth(z, near, 8)
    assert matched.value > 0.95
    assert batch.value > 8
    assert batch.low <= batch.value <= batch.high
    assert batch_worth(z, torch.randn(800, 8), 64) is None

"""Facts about views of images: torchvision's results, the probabilities of the papers, and randomness by key."""

from pathlib import Path

import numpy as np
import pytest
import torch

from vergence.views.blur import blur
from vergence.views.colour import grey, jitter
from vergence.views.geometry import lattice, resample

REFERENCE = np.load(Path(__file__).parent / "data" / "torchvision.npz")


def reference(group):
    parts = {name.split(".")[1]: REFERENCE[name] for name in REFERENCE.files if name.startswith(f"{group}.")}
    return {name: torch.from_numpy(array) for name, array in parts.items()}


def close(actual, expected):
    torch.testing.assert_close(actual, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("group", "size", "step"), [("crop", 32, 1), ("crop_grey", 28, 1), ("crop_smaller", 16, 1), ("crop_larger", 224, 9)]
)
@pytest.mark.parametrize("bytes_in", [True, False])
def test_a_crop_is_torchvisions(group, size, step, bytes_in):
    case = reference(group)
    x = case["x"] if bytes_in else case["x"].float() / 255
    views = resample(x, *lattice(case["windows"], case["flips"], tuple(x.shape[2:]), (size, size)))
    close(views[..., ::step, ::step], case["views"])


@pytest.mark.parametrize("group", ["distortion", "distortion_grey"])
def test_colour_distortion_is_torchvisions_in_every_order(group):
    case = reference(group)
    everyone = torch.ones(len(case["x"]), dtype=torch.bool)
    close(jitter(case["x"].float() / 255, everyone, case["factors"], case["order"]), case["views"])


@pytest.mark.parametrize(("group", "side"), [("blur", 3), ("blur_wide", 23)])
def test_blur_is_torchvisions(group, side):
    case = reference(group)
    close(blur(case["x"].float() / 255, case["sigma"], side=side), case["views"])


def test_grey_is_torchvisions():
    case = reference("grey")
    close(grey(case["x"].float() / 255).expand(-1, 3, -1, -1), case["views"])

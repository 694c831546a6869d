"""Facts about views of images: torchvision's results for given parameters, and the probabilities of the papers."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from vergence.counters import uniform
from vergence.views import from_letters, glyph, halves, identity, sample_keys, simclr
from vergence.views.blur import blur, kernel_side
from vergence.views.color import gray, jitter, jitter_parameters
from vergence.views.geometry import crop_windows, lattice, resample
from vergence.views.glyph import warp_images

REFERENCE = np.load(Path(__file__).with_name("torchvision.npz"))


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
def test_color_distortion_is_torchvisions_in_every_order(group):
    case = reference(group)
    everyone = torch.ones(len(case["x"]), dtype=torch.bool)
    close(jitter(case["x"].float() / 255, everyone, case["factors"], case["order"]), case["views"])


@pytest.mark.parametrize(("group", "side"), [("blur", 3), ("blur_wide", 23)])
def test_blur_is_torchvisions(group, side):
    case = reference(group)
    close(blur(case["x"].float() / 255, case["sigma"], side=side), case["views"])


def test_gray_is_torchvisions():
    case = reference("grey")
    close(gray(case["x"].float() / 255).expand(-1, 3, -1, -1), case["views"])


def keys(n, seed=0):
    return sample_keys(seed, 0, torch.arange(n))


def photographs(n=64, size=32, channels=3):
    return torch.randint(
        0, 256, (n, channels, size, size), dtype=torch.uint8, generator=torch.Generator().manual_seed(1)
    )


def within_four_deviations(share, probability, n):
    assert abs(share - probability) < 4 * math.sqrt(probability * (1 - probability) / n)


def test_crops_have_uniform_area_and_log_aspect():
    windows = crop_windows(uniform(keys(20000), 22), 400, 400, scale=(0.1, 0.4), ratio=(3 / 4, 4 / 3)).double()
    _, _, height, width = windows.unbind(dim=1)
    area, aspect = height * width / 400**2, (width / height).log() / math.log(4 / 3)
    for share in (0.25, 0.5, 0.75):
        within_four_deviations((area < 0.1 + 0.3 * share).double().mean(), share, 20000)
        within_four_deviations((aspect < 2 * share - 1).double().mean(), share, 20000)


def test_crops_lie_inside_and_reach_every_corner():
    top, left, height, width = crop_windows(
        uniform(keys(5000), 22), 9, 7, scale=(0.08, 1.0), ratio=(3 / 4, 4 / 3)
    ).unbind(dim=1)
    assert top.min() == 0
    assert left.min() == 0
    assert (top + height).max() == 9
    assert (left + width).max() == 7
    assert min(height.min(), width.min()) >= 1


def test_a_crop_that_never_fits_is_the_largest_central_one():
    # Whole area at an aspect of 3/4 to 4/3 never fits in an image four times as wide as high.
    windows = crop_windows(uniform(keys(50), 22), 12, 48, scale=(1.0, 1.0), ratio=(3 / 4, 4 / 3))
    assert (windows == torch.tensor([0, 16, 12, 16])).all()


def test_color_factors_fill_their_ranges_and_every_order_is_equally_likely():
    n = 24000
    factors, order = jitter_parameters(uniform(keys(n), 8), strength=0.5)
    low, high = torch.tensor([0.6, 0.6, 0.6, -0.1]), torch.tensor([1.4, 1.4, 1.4, 0.1])
    shares = (factors - low) / (high - low)
    assert 0 <= shares.min() < 0.001 < 0.999 < shares.max() <= 1
    torch.testing.assert_close(shares.mean(dim=0), torch.full((4,), 0.5), atol=4 / math.sqrt(12 * n), rtol=0)
    _, counts = order.unique(dim=0, return_counts=True)
    assert len(counts) == 24
    assert (
        (counts - n / 24) ** 2 / (n / 24)
    ).sum() < 49.7  # the 0.999 quantile of chi-squared with 23 degrees of freedom


def test_a_strength_over_one_and_a_quarter_never_makes_a_ratio_negative():
    factors, _ = jitter_parameters(uniform(keys(1000), 8), strength=2.0)
    assert factors[:, :3].min() >= 0


def changed(letters, x, **options):
    """Which samples differ from their plain view."""
    recipe = from_letters(letters, **options)
    return (recipe.view(x, keys(len(x))) - recipe.plain(x)).abs().amax(dim=(1, 2, 3)) > 1e-6


@pytest.mark.parametrize(("letters", "probability"), [("b", 0.5), ("c", 0.2), ("d", 0.8), ("e", 0.5)])
def test_each_transformation_has_the_probability_of_the_paper(letters, probability):
    n = 4000
    within_four_deviations(changed(letters, photographs(n, size=8)).double().mean(), probability, n)


def test_switching_one_transformation_off_leaves_the_others_as_they_were():
    x = photographs()
    colored = changed("d", x)
    torch.testing.assert_close(
        from_letters("ade").view(x, keys(64))[~colored], from_letters("ae").view(x, keys(64))[~colored]
    )


def test_the_two_views_and_two_samples_are_different():
    x = photographs(2)[:1].expand(2, 3, 32, 32)
    first, second = simclr()(x, keys(2))
    assert not torch.equal(first[0], second[0])
    assert not torch.equal(first[0], first[1])


def test_no_letters_is_the_plain_image():
    x = photographs()
    torch.testing.assert_close(from_letters("").view(x, keys(64)), x.float() / 255)


def test_bytes_and_their_floats_have_the_same_views():
    x = photographs()
    torch.testing.assert_close(simclr().view(x, keys(64)), simclr().view(x.float() / 255, keys(64)), atol=1e-5, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_floats_become_float32(dtype):
    x = photographs(4, size=33).to(dtype) / 255
    for recipe in (simclr(), simclr(size=16), glyph()):
        assert recipe.view(x, keys(4)).dtype == recipe.plain(x).dtype == torch.float32


def test_a_view_keeps_the_memory_format_of_its_image():
    x = photographs().contiguous(memory_format=torch.channels_last)
    view = simclr().view(x, keys(64))
    assert view.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(view, simclr().view(photographs(), keys(64)))


def test_blur_is_off_up_to_32_pixels_unless_asked_for():
    small, large = photographs(8), photographs(8, size=33)
    assert torch.equal(simclr().view(small, keys(8)), simclr(blur=False).view(small, keys(8)))
    assert not torch.equal(simclr().view(small, keys(8)), simclr(blur=True).view(small, keys(8)))
    assert not torch.equal(simclr().view(large, keys(8)), simclr(blur=False).view(large, keys(8)))


def test_the_blur_kernel_is_a_tenth_of_the_side_and_odd():
    assert [kernel_side(size) for size in (8, 32, 64, 96, 224)] == [3, 3, 7, 9, 23]


def test_a_recipe_says_which_letters_it_has():
    assert from_letters("ad", strength=0.25).describe() == "(a) crop + (d) color 0.25"
    assert from_letters("").describe() == "no transformation"


def test_plain_with_a_size_is_the_central_square():
    x = photographs(2, size=40)[:, :, :, 4:36]
    torch.testing.assert_close(simclr(size=32).plain(x), x[:, :, 4:36].float() / 255)


def test_a_glyph_with_every_option_at_zero_is_itself():
    x = photographs(16, size=8, channels=1)
    still = glyph(rotate=0.0, shear=0.0, zoom=0.0, translate=0.0, elastic=0.0, tone=0.0, cover=0.0)
    torch.testing.assert_close(still.view(x, keys(16)), still.plain(x), atol=1e-5, rtol=0)


def test_warping_by_a_quarter_turn_rotates_the_array():
    x = torch.rand(2, 1, 9, 9)
    quarter = torch.tensor([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0]]).expand(2, 2, 3)
    torch.testing.assert_close(warp_images(x, quarter, torch.zeros(2, 2, 4, 4)), x.rot90(1, (2, 3)))


def test_a_warp_in_the_elastic_field_alone_shifts_by_its_value():
    x = torch.rand(1, 1, 8, 8)
    straight = torch.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    right = torch.tensor([2 / 8, 0.0]).view(1, 2, 1, 1).expand(1, 2, 4, 4)  # one pixel in coordinates from -1 to 1
    torch.testing.assert_close(warp_images(x, straight, right)[..., :-1], x[..., 1:])


def test_a_glyphs_cover_is_one_black_rectangle_of_at_most_its_share():
    x = torch.ones(500, 1, 20, 20)
    covered = glyph(rotate=0.0, shear=0.0, zoom=0.0, translate=0.0, elastic=0.0, tone=0.0, cover=0.5).view(x, keys(500))
    black = covered[:, 0] == 0
    height, width = black.any(dim=2).sum(dim=1), black.any(dim=1).sum(dim=1)
    assert torch.equal(black.sum(dim=(1, 2)), height * width)
    assert height.max() == 10
    assert width.max() == 10


def test_halves_are_the_top_and_the_bottom_without_the_middle_row():
    x = torch.rand(3, 1, 5, 4)
    top, bottom = halves()(x, keys(3))
    assert torch.equal(top, x[:, :, :2])
    assert torch.equal(bottom, x[:, :, 3:])
    assert torch.equal(halves().plain(x), top)


def test_the_identity_is_the_sample_twice():
    x = photographs(3)
    first, second = identity()(x, keys(3))
    assert torch.equal(first, x.float() / 255)
    assert torch.equal(first, second)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: simclr(size=0), "size must be at least 1 or None, got 0"),
        (lambda: simclr(strength=-0.1), r"strength must be in \[0, 2.5\].*got -0.1"),
        (lambda: simclr(strength=math.nan), "strength must be .* got nan"),
        (lambda: simclr(smallest=0.0), "smallest must be .* got 0.0"),
        (lambda: from_letters("az"), r"letters must be made of a \(crop\), b \(blur\).* got 'az'"),
        (lambda: glyph(rotate=-1.0), r"rotate must be in \[0, 180\], got -1.0"),
        (lambda: glyph(cover=1.5), r"cover must be in \[0, 1\], got 1.5"),
    ],
)
def test_a_wrong_option_is_named(build, message, unchecked):
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (
            torch.zeros(4, 32, 32),
            r"x must be uint8 or float \[n, channels, height, width\].* got float32 \[4, 32, 32\]",
        ),
        (torch.zeros(4, 2, 8, 8), r"1 or 3 channels.* got float32 \[4, 2, 8, 8\]"),
        (torch.zeros(4, 3, 8, 8, dtype=torch.int32), "uint8 or float"),
        (torch.zeros(4, 3, 0, 8), "empty axis"),
        (torch.full((4, 3, 8, 8), 2.0), r"must lie in \[0, 1\].* to 2.0"),
        (torch.full((4, 3, 8, 8), math.nan), "from nan to nan"),
    ],
)
def test_a_wrong_image_is_named(x, message, unchecked):
    with pytest.raises(ValueError, match=message):
        simclr()(x, keys(4))


@pytest.mark.parametrize("wrong", [torch.arange(3), torch.zeros(4), torch.zeros(4, 1, dtype=torch.int64)])
def test_wrong_keys_are_named(wrong, unchecked):
    with pytest.raises(ValueError, match=r"keys must be int64 \[4\], one per sample"):
        simclr()(photographs(4), wrong)

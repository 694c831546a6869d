"""Large images, one at a time: what the batch would give, within rounding, and the same bits in any batch."""

import itertools

import pytest
import torch

from vergence.views import large, sample_keys, simclr
from vergence.views.blur import blur, kernel_side
from vergence.views.color import jitter
from vergence.views.large import FAINT, blur_each, jitter_each, kernel


def pictures(n, side=24, channels=3, seed=0):
    x = torch.rand(n, channels, side, side + 3, generator=torch.Generator().manual_seed(seed))
    x[0] = x[0, :1]  # gray: no hue
    x[1, :, :4] = torch.tensor([0.0, 1.0]).repeat(2)[:, None]  # black and white
    return x


@pytest.mark.parametrize("channels", [1, 3])
def test_colors_are_those_of_the_batch_in_every_order(channels):
    orders = torch.tensor(list(itertools.permutations(range(4))))
    n = len(orders)
    x = pictures(n, channels=channels)
    generator = torch.Generator().manual_seed(1)
    factors = torch.rand(n, 4, generator=generator) * torch.tensor([1.6, 1.6, 1.6, 1.0])
    factors[:, 3] -= 0.5
    chosen = torch.rand(n, generator=generator) < 0.8
    ours = jitter_each(x, chosen, factors, orders)
    torch.testing.assert_close(ours, jitter(x, chosen, factors, orders), atol=2e-6, rtol=0)
    assert ours.min() >= 0
    assert ours.max() <= 1
    assert torch.equal(ours[~chosen], x[~chosen])


@pytest.mark.parametrize("side", [3, 9, 23])
def test_blur_differs_from_the_whole_kernel_by_the_weights_left_out(side):
    x, chosen = pictures(8, side=40), torch.tensor([True] * 7 + [False])
    sigma = torch.tensor([0.1, 0.2, 0.5, 0.8, 1.0, 1.5, 2.0, 1.0], dtype=torch.float64)
    ours = blur_each(x, chosen, sigma, side=side)
    whole = blur(x[:7], sigma[:7].float(), side=side)
    torch.testing.assert_close(ours[:7], whole, atol=4e-6, rtol=0)
    assert torch.equal(ours[7], x[7])


def test_the_kernel_ends_where_weights_fall_below_a_millionth():
    assert len(kernel(0.1, 11)) == 1
    narrow, wide = kernel(1.0, 11), kernel(2.0, 11)
    assert len(narrow) == 6  # exp(-25/2) / 2.5 is 1.5e-6, exp(-36/2) / 2.5 is 6e-9
    assert min(narrow) >= FAINT
    assert len(wide) == 10
    assert wide[0] + 2 * sum(wide[1:]) == pytest.approx(1, abs=3e-6)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_large_image_has_the_same_views_in_any_batch(threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        x = torch.randint(0, 256, (7, 3, 96, 96), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
        assert large.is_large(x.float())
        keys, recipe = sample_keys(0, 0, torch.arange(7)), simclr()
        together = recipe(x, keys)
        for parts in (torch.arange(7).split(1), torch.arange(7).split(3)):
            apart = [recipe(x[part], keys[part]) for part in parts]
            for number, view in enumerate(together):
                assert torch.equal(view, torch.cat([each[number] for each in apart]))
    finally:
        torch.set_num_threads(before)


def test_the_recipe_of_large_images_is_that_of_small_ones(monkeypatch):
    x = torch.randint(0, 256, (12, 3, 96, 96), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    keys = sample_keys(0, 0, torch.arange(12))
    one_by_one = simclr()(x, keys)
    monkeypatch.setattr(large, "LARGE", 10**9)
    for ours, batched in zip(one_by_one, simclr()(x, keys), strict=True):
        torch.testing.assert_close(ours, batched, atol=1e-5, rtol=0)
    assert kernel_side(96) == 9

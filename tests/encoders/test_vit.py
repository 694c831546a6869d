"""The ViT: published sizes, crops of any size, patches that are left out, and blocks left out by the pixels alone."""

import pytest
import torch

from vergence.counters import content_keys
from vergence.encoders import build
from vergence.encoders.vit import positions


def images(n=6, side=32, seed=0):
    return torch.rand(n, 3, side, side, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("side", "patch", "grid"), [(8, 2, 4), (32, 4, 8), (64, 8, 8), (96, 12, 8), (224, 16, 14)])
def test_the_patch_suits_the_image(side, patch, grid):
    encoder = build("vit", (3, side, side))
    assert (encoder.patch, encoder.grid) == (patch, (grid, grid))


def test_sizes_are_the_published_ones():
    # DeiT-Ti and DeiT-S have 5,717,416 and 22,050,664 with learned positions (197) and the 1000-class layer.
    for name, width, published in (("vit_tiny", 192, 5_717_416), ("vit_small", 384, 22_050_664)):
        count = sum(parameter.numel() for parameter in build(name, (3, 224, 224)).parameters())
        assert count + 197 * width + width * 1000 + 1000 == published


@pytest.mark.parametrize("pool", ["mean", "class"])
def test_crops_of_any_size_are_read(pool):
    encoder = build("vit", (3, 32, 32), depth=1, width=16, attention_heads=2, pool=pool, registers=3).eval()
    for side in (32, 14, 4, 50):
        assert encoder(images(2, side)).shape == (2, 16)


def test_positions_of_a_crop_span_those_of_the_image():
    whole, half = positions((8, 8), (8, 8), 16), positions((4, 4), (8, 8), 16)
    assert half.shape == (16, 16)
    assert whole.unique(dim=0).shape == (64, 16)
    # A patch of the coarser grid lies in the middle of four of the finer one: place 0.5 of the first axis.
    assert torch.allclose(half[0, 0], torch.sin(torch.tensor(0.5, dtype=torch.float64)))


def test_all_patches_in_any_order_give_the_same_mean():
    encoder = build("vit", (3, 32, 32), depth=2, width=16, attention_heads=2).eval()
    x = images()
    order = torch.rand(6, 64, generator=torch.Generator().manual_seed(1)).argsort(1)
    tokens = encoder.tokens(x, order)[:, 1:]
    torch.testing.assert_close(tokens.mean(1), encoder(x), rtol=1e-4, atol=1e-5)


def test_what_is_not_seen_does_not_count():
    encoder = build("vit", (3, 32, 32), depth=2, width=16, attention_heads=2).eval()
    x, y = images(), images()
    y[:, :, 16:] = 0.0  # the lower half: patches 32 to 63
    seen = torch.arange(32).expand(6, -1)
    torch.testing.assert_close(encoder.tokens(x, seen), encoder.tokens(y, seen))
    assert not torch.allclose(encoder(x), encoder(y))


def test_blocks_are_left_out_by_the_pixels_alone():
    encoder = build("vit", (3, 32, 32), depth=3, width=16, attention_heads=2, drop_path=0.5).train()
    x = images(32)
    whole = encoder(x)
    torch.testing.assert_close(torch.cat([encoder(part) for part in x.split(5)]), whole, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(whole, encoder.eval()(x))


def test_a_block_that_is_left_out_keeps_the_mean():
    encoder = build("vit", (3, 8, 8), patch=4, depth=1, width=16, attention_heads=2, drop_path=0.4).train()
    block = encoder.blocks[0]
    kept = block._kept(content_keys(images(4000, 4)), torch.zeros(1))[0].flatten()
    torch.testing.assert_close(kept.unique(), torch.tensor([0.0, 1 / 0.6]))
    assert float(kept.mean()) == pytest.approx(1.0, abs=0.05)


def test_keys_of_pixels_differ_and_do_not_depend_on_the_batch():
    x = images(50)
    keys = content_keys(x)
    assert len(keys.unique()) == 50
    assert torch.equal(content_keys(x[7:9]), keys[7:9])
    assert content_keys(x.flip(3))[0] != keys[0]


@pytest.mark.parametrize(
    ("shape", "options", "message"),
    [((10,), {}, "reads images"), ((3, 8, 8), {"width": 10}, "multiple of 4 x attention_heads = 16")],
)
def test_what_it_cannot_be_is_refused(shape, options, message):
    with pytest.raises(ValueError, match=message):
        build("vit", shape, **options)

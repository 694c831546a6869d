"""Facts about views of vectors, series and texts."""

import math

import pytest
import torch

from vergence.views import sample_keys, series, tabular, text


def keys(n):
    return sample_keys(0, 0, torch.arange(n))


def still(**options):
    """The series recipe with everything off but the given options."""
    return series(**{"crop": 1.0, "segments": 1, "scaling": 0.0, "jitter": 0.0, "dropout": 0.0, "mask": 0.0} | options)


def share_within(mask, probability):
    assert abs(mask.double().mean() - probability) < 4 * math.sqrt(probability * (1 - probability) / mask.numel())


def test_a_corrupted_cell_comes_from_its_column():
    table = torch.arange(60.0).view(20, 3)
    view = tabular(corruption=0.5, noise=0.0).fitted(table).view(table.repeat(100, 1), keys(2000))
    for column in range(3):
        assert torch.isin(view[:, column], table[:, column]).all()


def test_cells_are_corrupted_at_the_given_rate():
    table = torch.rand(1000, 4)
    x = table[:1].expand(3000, 4)
    share_within(tabular(corruption=0.3, noise=0.0).fitted(table).view(x, keys(3000)) != x, 0.3)


def test_without_a_table_a_corrupted_cell_is_zero():
    view = tabular(corruption=0.4, noise=0.0).view(torch.ones(3000, 4), keys(3000))
    assert set(view.unique().tolist()) == {0.0, 1.0}
    share_within(view == 0, 0.4)


def test_noise_is_a_share_of_the_columns_deviation():
    table = torch.randn(500, 2) * torch.tensor([1.0, 10.0])
    view = tabular(corruption=0.0, noise=0.1).fitted(table).view(torch.zeros(20000, 2), keys(20000))
    torch.testing.assert_close(view.std(dim=0), 0.1 * table.std(dim=0), rtol=0.03, atol=0)


def test_a_series_with_everything_off_is_itself():
    x = torch.randn(5, 2, 31)
    assert torch.equal(still().view(x, keys(5)), x)


def test_a_stretch_of_a_ramp_is_a_slower_ramp():
    ramp = torch.linspace(0.0, 1.0, 64).expand(200, 1, 64)
    view = still(crop=0.25).view(ramp, keys(200))
    slope = view.diff(dim=2)[:, 0, 4:-4]  # the ends repeat the edge of the stretch
    torch.testing.assert_close(slope, slope[:, :1].expand_as(slope), atol=1e-5, rtol=1e-3)
    share = slope[:, 0] * 63
    assert 0.24 < share.min() < 0.3
    assert 0.95 < share.max() < 1.01


def test_segments_change_places_and_keep_their_inside():
    x = torch.arange(12.0).expand(500, 1, 12)
    view = still(segments=3).view(x, keys(500))[:, 0].view(500, 3, 4)
    torch.testing.assert_close(view - view[:, :, :1], torch.arange(4.0).expand(500, 3, 4))
    assert view[:, :, 0].sort(dim=1).values.unique(dim=0).tolist() == [[0.0, 4.0, 8.0]]
    assert len(view[:, :, 0].unique(dim=0)) == 6


def test_scaling_is_one_factor_per_channel():
    x = torch.rand(2000, 2, 10) + 0.5
    ratio = still(scaling=0.3).view(x, keys(2000)) / x
    torch.testing.assert_close(ratio, ratio[:, :, :1].expand_as(ratio))
    assert 0.7 <= ratio.min() < 0.701 < 1.299 < ratio.max() <= 1.3


def test_jitter_is_a_share_of_the_channels_own_deviation():
    x = torch.randn(50, 2, 2000) * torch.tensor([1.0, 100.0])[:, None]
    noise = still(jitter=0.2).view(x, keys(50)) - x
    torch.testing.assert_close(noise.std(dim=2), 0.2 * x.std(dim=2), rtol=0.1, atol=0)


def test_channels_are_dropped_whole_and_a_single_channel_never():
    view = still(dropout=0.25).view(torch.ones(2000, 3, 5), keys(2000))
    assert torch.equal(view.amin(dim=2), view.amax(dim=2))
    share_within(view[:, :, 0] == 0, 0.25)
    assert still(dropout=0.9).view(torch.ones(100, 1, 5), keys(100)).min() == 1


def test_the_mask_is_one_stretch_of_at_most_its_share():
    view = still(mask=0.4).view(torch.ones(1000, 2, 50), keys(1000))
    assert torch.equal(view[:, 0], view[:, 1])
    hidden = view[:, 0] == 0
    assert hidden.sum(dim=1).max() == 20
    assert (hidden.int().diff(dim=1).abs().sum(dim=1) <= 2).all()


def texts(n, t=20):
    """Texts of 10 tokens that say where they stood, then padding."""
    x = torch.zeros(n, t, dtype=torch.int64)
    x[:, :10] = torch.arange(1, 11)
    return x


def test_a_span_is_a_run_of_the_text_moved_to_the_front():
    view = text(crop=0.5, dropout=0.0, swap=0.0).view(texts(1000), keys(1000))
    length = (view != 0).sum(dim=1)
    expected = view[:, :1] + torch.arange(20)
    assert torch.equal(view, torch.where(torch.arange(20) < length[:, None], expected, 0))
    assert (length.min(), length.max()) == (5, 10)
    assert (view[:, 0].min(), (view[:, 0] + length - 1).max()) == (1, 10)


def test_tokens_are_dropped_at_the_given_rate_in_order():
    view = text(crop=1.0, dropout=0.2, swap=0.0).view(texts(2000), keys(2000))
    kept = (view[:, :, None] == torch.arange(1, 11)).any(dim=1)
    share_within(kept, 0.8)
    assert torch.equal(view.sort(dim=1, descending=True).values.flip(1).sort(dim=1).values, view.sort(dim=1).values)
    rising = view.diff(dim=1)
    assert (rising[view[:, 1:] != 0] > 0).all()


def test_a_text_never_loses_its_last_token_and_nothing_stays_nothing():
    x = torch.tensor([[7, 0, 0]]).expand(500, 3)
    assert torch.equal(text(dropout=0.9).view(x, keys(500)), x)
    assert text().view(torch.zeros(2, 3, dtype=torch.int64), keys(2)).sum() == 0


def test_swapped_tokens_are_neighbors_and_none_is_lost():
    view = text(crop=1.0, dropout=0.0, swap=0.5).view(texts(2000), keys(2000))
    assert torch.equal(view.sort(dim=1).values, texts(2000).sort(dim=1).values)
    moved = (view - texts(2000))[:, :10].abs()
    assert set(moved.unique().tolist()) == {0, 1}
    # Nine pairs of neighbors are paired half of the time and then swapped half of the time; each moves two tokens.
    assert abs(moved.double().mean() - 2 * 9 * 0.25 / 10) < 0.02


def test_padding_between_tokens_is_closed_up():
    x = torch.tensor([[0, 5, 0, 6, 0]])
    assert text(crop=1.0, dropout=0.0, swap=0.0).view(x, keys(1)).tolist() == [[5, 6, 0, 0, 0]]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: tabular(corruption=1.1), r"corruption must be in \[0, 1\], got 1.1"),
        (lambda: tabular(noise=-1.0), "noise must be at least 0, got -1.0"),
        (lambda: series(crop=0.0), r"crop must be in \(0, 1\], got 0.0"),
        (lambda: series(segments=0), "segments must be at least 1, got 0"),
        (lambda: text(dropout=1.0), r"dropout must be in \[0, 1\), got 1.0"),
    ],
)
def test_a_wrong_option_is_named(build, message):
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize(
    ("recipe", "x", "message"),
    [
        (tabular(), torch.zeros(2, 3, 4), r"x must be float \[n, d\] for vector views, got float32 \[2, 3, 4\]"),
        (tabular(), torch.tensor([[0.0], [math.inf]]), "x must be finite"),
        (series(), torch.full((2, 1, 4), math.nan), "x must be finite"),
        (series(), torch.zeros(2, 1, 4, dtype=torch.int64), r"x must be float \[n, channels, time\]"),
        (text(), torch.zeros(2, 4), r"x must be int64 \[n, time\] for text views, got float32"),
        (text(), torch.full((2, 4), -1), "at least 0"),
    ],
)
def test_wrong_samples_are_named(recipe, x, message, unchecked):
    with pytest.raises(ValueError, match=message):
        recipe(x, keys(2))


def test_a_table_of_other_columns_is_named():
    with pytest.raises(ValueError, match="the 3 columns of the fitted table, got 2"):
        tabular().fitted(torch.rand(5, 3)).view(torch.rand(4, 2), keys(4))

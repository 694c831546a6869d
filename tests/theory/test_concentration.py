"""Augmented distance and concentration: facts beside claims 38-40."""

import json
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import vergence.theory.distance as room
from vergence.theory import (
    augmented_distance,
    closest_views,
    concentration,
    concentration_curve,
    ranked_by_concentration,
    shares_outside,
    within_classes,
)


def brute_force(views):
    rows = views.flatten(2).double()
    gaps = (rows[:, :, None, None] - rows).norm(dim=-1)
    return gaps.amin((1, 3)).fill_diagonal_(0)


def drawn(n, m, d, seed=0, dtype=torch.float64):
    return torch.randn(n, m, d, dtype=dtype, generator=torch.Generator().manual_seed(seed))


@settings(max_examples=40, deadline=None)
@given(n=st.integers(1, 9), m=st.integers(1, 5), d=st.integers(1, 6), seed=st.integers(0, 10**6))
def test_the_distance_is_the_least_over_all_pairs_of_views(n, m, d, seed):
    views = drawn(n, m, d, seed)
    torch.testing.assert_close(augmented_distance(views), brute_force(views))


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (4, 8), (12, 5), (512, 2048)])
def test_tiles_change_nothing(monkeypatch, rows, columns):
    monkeypatch.setattr(room, "ROWS", rows)
    monkeypatch.setattr(room, "COLUMNS", columns)
    views = drawn(13, 4, 6)
    distance = augmented_distance(views)
    torch.testing.assert_close(distance, brute_force(views))
    assert torch.equal(distance, distance.T)


def test_images_are_compared_pixel_by_pixel():
    views = drawn(5, 3, 48).view(5, 3, 3, 4, 4)
    torch.testing.assert_close(augmented_distance(views), brute_force(views))


def test_nearly_equal_views_far_from_the_origin_keep_their_digits():
    views = 1e3 + 1e-2 * drawn(6, 3, 50, dtype=torch.float32)
    torch.testing.assert_close(augmented_distance(views).double(), brute_force(views), rtol=1e-5, atol=1e-6)


def test_classes_apart_have_their_own_distances_and_none_between():
    views, labels = drawn(9, 2, 3), torch.arange(9) % 3
    apart = within_classes(labels, lambda own: augmented_distance(views[own]))
    same = labels[:, None] == labels
    torch.testing.assert_close(apart[same], augmented_distance(views)[same])
    assert apart[~same].isinf().all()


def test_a_shared_view_means_distance_nought():
    views = drawn(6, 4, 8, dtype=torch.float32)
    views[4, 2] = views[1, 3]
    assert augmented_distance(views)[1, 4] == 0


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
def test_a_limit_hides_what_is_beyond_and_nothing_else(share):
    views = drawn(40, 3, 100, dtype=torch.float32)
    whole = augmented_distance(views)
    limit = whole[whole > 0].quantile(share).item()
    near = whole <= limit
    limited = augmented_distance(views, limit=limit)
    torch.testing.assert_close(limited[near], whole[near])
    assert limited[~near].isinf().all()


def test_the_closest_views_attain_the_distance():
    views = drawn(4, 5, 3)
    first, second = closest_views(views[0], views[3])
    torch.testing.assert_close((views[0, first] - views[3, second]).norm(), augmented_distance(views)[0, 3])


@pytest.mark.parametrize("views", [torch.zeros(3, 4), torch.zeros(0, 2, 2), torch.full((2, 2, 2), math.nan)])
def test_views_that_cannot_be_compared_are_refused(views, unchecked):
    with pytest.raises(ValueError, match=r"samples, views|NaN"):
        augmented_distance(views)


def line(*places):
    """Samples on a line without augmentation."""
    x = torch.tensor(places, dtype=torch.float64)
    return (x[:, None] - x).abs()


def test_the_main_part_is_the_densest_stretch():
    found = concentration(line(0.0, 0.4, 0.8, 5.0, 10.0, 10.1, 20.0, 30.0), torch.tensor([0] * 4 + [1] * 4), 1.0)
    assert found.sigma == 0.5
    assert found.parts[0].share == 0.75
    assert found.parts[0].members.tolist() == [0, 1, 2]
    assert found.parts[1].members.tolist() == [4, 5]
    assert found.exact
    assert found.mean == pytest.approx(0.625)


def test_concentration_does_not_look_between_classes():
    distance = line(0.0, 0.0, 0.0, 0.0)
    apart = torch.tensor([0, 0, 1, 1])
    distance[apart[:, None] != apart] = math.inf
    assert concentration(distance, apart, 0.1).sigma == 1


def test_the_order_of_samples_and_the_names_of_classes_do_not_matter():
    distance = augmented_distance(drawn(30, 2, 2))
    labels = torch.arange(30) % 3
    order = torch.randperm(30, generator=torch.Generator().manual_seed(0))
    one = [c.sigma for c in concentration_curve(distance, labels, [0.2, 0.7, 1.5])]
    two = [c.sigma for c in concentration_curve(distance[order][:, order], 10 * labels[order] + 3, [0.2, 0.7, 1.5])]
    assert one == two


def test_deltas_come_back_in_the_order_given():
    curve = concentration_curve(line(0.0, 1.0, 3.0), torch.zeros(3, dtype=torch.long), [3.0, 1.0])
    assert [(c.delta, c.sigma) for c in curve] == [(3.0, 1.0), (1.0, 2 / 3)]


def test_a_search_without_time_brackets_sigma():
    distance = augmented_distance(drawn(80, 1, 10))
    labels = torch.zeros(80, dtype=torch.long)
    middle = distance[distance > 0].median().item()
    exact, hasty = (concentration(distance, labels, middle, seconds=seconds) for seconds in (60.0, 0.0))
    assert exact.exact
    assert hasty.sigma <= exact.sigma <= hasty.upper


def test_a_concentration_becomes_json():
    found = concentration(line(0.0, 1.0, 3.0), torch.zeros(3, dtype=torch.long), 1.0)
    assert json.loads(json.dumps(found.to_dict()))["parts"][0]["members"] == [0, 1]


GOOD, LABELS = line(0.0, 1.0, 2.0, 3.0), torch.tensor([0, 0, 1, 1])


@pytest.mark.parametrize(
    ("distance", "labels", "delta", "words"),
    [
        (GOOD, LABELS, 0.0, "above 0"),
        (GOOD, LABELS, math.nan, "above 0"),
        (GOOD, torch.tensor([0, 0, 0, 1]), 1.0, r"one sample only in \[1\]"),
        (GOOD.masked_fill(GOOD == 3, math.nan), LABELS, 1.0, "NaN"),
        (GOOD.triu(), LABELS, 1.0, "not symmetric"),
        (-GOOD, LABELS, 1.0, "negative"),
        (GOOD[:3], LABELS, 1.0, "square"),
        (GOOD, LABELS[:3], 1.0, "one label a row"),
    ],
)
def test_bad_input_is_refused_in_words(distance, labels, delta, words, unchecked):
    with pytest.raises(ValueError, match=words):
        concentration(distance, labels, delta)


def test_what_is_outside_the_main_part_is_one_minus_the_mean_share_over_classes():
    places = torch.tensor([0.0, 0.1, 5.0, 9.0, 9.1, 9.2], dtype=torch.float64)  # a class of 2 and 1, a class of 3
    labels = torch.tensor([0, 0, 0, 1, 1, 1])
    shares = shares_outside(lambda own: places[own][:, None, None], labels, [0.01, 0.5, 10.0])
    torch.testing.assert_close(shares, torch.tensor([2 / 3, 1 / 6, 0.0]))


def test_views_that_bring_a_class_together_rank_first():
    labels = torch.arange(12) % 2
    points = drawn(12, 3, 4)
    sets = {
        "apart": lambda seed, own: points[own],
        "together": lambda seed, own: 0.1 * (1 + seed) * points[own],
    }
    ranked = ranked_by_concentration(sets, labels, [0.5, 1.0], draws=2)
    assert list(ranked) == ["together", "apart"]
    assert ranked["together"].shape == (2, 2)

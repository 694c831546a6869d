"""What theory says of sets of views before training."""

import json

import pytest
import torch

from vergence.views import from_letters
from vergence.views.concentration import concentrations

LABELS = torch.arange(24) % 3
NOISE = torch.randint(0, 60, (24, 3, 8, 8), generator=torch.Generator().manual_seed(0))
X = (NOISE + 60 * LABELS[:, None, None, None]).to(torch.uint8)  # noisy pictures of three brightnesses


def described(sets=("e", "ad"), labels=LABELS, **options):
    options = {"views": 4, "resamples": 2, **options}
    return concentrations(X, labels, {letters: from_letters(letters) for letters in sets}, **options)


def test_curves_never_rise_and_intervals_hold_the_score():
    for row in described():
        assert list(row.curve) == sorted(row.curve, reverse=True)
        assert row.interval[0] <= row.score <= row.interval[1]
        assert row.exact


def test_views_that_vary_more_concentrate_more():
    flip, both = described()
    assert both.score < flip.score


def test_a_transformation_that_does_nothing_leaves_the_plain_distances():
    (row,) = described(sets=("",), deltas=[1e-6, 1e3], resamples=1)
    assert row.curve == pytest.approx((7 / 8, 0))  # nobody is near anybody, then everybody is
    for label, places in row.outside.items():
        assert {int(LABELS[place]) for place in places} <= {label}


def test_connections_are_between_classes_and_within_delta():
    (row,) = described(sets=("ad",), deltas=[2.0], resamples=1)
    assert 0 < row.mixed <= 1
    for connection in row.connections:
        assert LABELS[connection.first] != LABELS[connection.second]
        assert connection.distance <= 2.0


def test_the_same_seed_gives_the_same_and_another_seed_another():
    assert described() == described()
    assert described() != described(seed=1)


def test_any_space_can_take_the_place_of_pixels():
    constant = described(embed=lambda views: 0 * views.flatten(1), deltas=[0.1])
    assert [row.score for row in constant] == [0, 0]


def test_without_labels_all_samples_are_one_class():
    (row,) = described(sets=("e",), labels=None)
    assert set(row.outside) == {0}
    assert row.connections == ()
    assert json.dumps(row.to_dict())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"labels": torch.tensor([0] * 23 + [1])}, "one sample only"),
        ({"views": 1}, "at least 2 views"),
        ({"sets": ()}, "no sets"),
        ({"deltas": [0.0]}, "above 0"),
    ],
)
def test_bad_input_is_refused_in_words(options, words):
    with pytest.raises(ValueError, match=words):
        described(**options)

"""Ranking augmentation sets before training."""

import json

import pytest
import torch

from vergence.data import Samples
from vergence.stages.views import augmentation_sets, rank_views, views
from vergence.views import from_letters

LABELS = torch.arange(24) % 3


def samples(labels=LABELS):
    """Noisy pictures of three brightnesses."""
    generator = torch.Generator().manual_seed(0)
    noise = torch.randint(0, 60, (24, 3, 8, 8), generator=generator)
    x = (noise + 60 * LABELS[:, None, None, None]).to(torch.uint8)
    return Samples(x, "image", labels=labels, classes=("dark", "gray", "light"), source="toy")


def ranked(sets=("e", "ad"), labels=LABELS, **options):
    options = {"per_class": 8, "views": 4, "resamples": 2, **options}
    return rank_views(samples(labels), {letters: from_letters(letters) for letters in sets}, **options)


def test_sets_come_best_first_and_their_curves_never_rise():
    found = ranked()
    assert [row.score for row in found.sets] == sorted(row.score for row in found.sets)
    for row in found.sets:
        assert list(row.curve) == sorted(row.curve, reverse=True)
        assert row.interval[0] <= row.score <= row.interval[1]
        assert row.exact


def test_views_that_vary_more_concentrate_more():
    assert [row.name for row in ranked().sets] == ["ad", "e"]


def test_a_transformation_that_does_nothing_leaves_the_plain_distances():
    (row,) = ranked(sets=("",), deltas=[1e-6, 1e3], resamples=1).sets
    assert row.curve == pytest.approx((7 / 8, 0))  # nobody is near anybody, then everybody is


def test_samples_outside_the_main_part_are_named_by_their_place():
    (row,) = ranked(sets=("",), deltas=[1e-6], resamples=1).sets
    for name, label in (("dark", 0), ("gray", 1), ("light", 2)):
        assert len(row.outside[name]) == 7
        assert {int(LABELS[index]) for index in row.outside[name]} == {label}


def test_connections_are_between_classes_and_within_delta():
    (row,) = ranked(sets=("ad",), deltas=[2.0], resamples=1).sets
    assert 0 < row.mixed <= 1
    for connection in row.connections:
        assert LABELS[connection.first] != LABELS[connection.second]
        assert connection.distance <= 2.0


def test_the_same_seed_gives_the_same_ranking_and_another_seed_another():
    assert ranked() == ranked()
    assert ranked() != ranked(seed=1)


def test_any_space_can_take_the_place_of_pixels():
    constant = ranked(space="nothing", embed=lambda views: 0 * views.flatten(1), deltas=[0.1])
    assert constant.space == "nothing"
    assert [row.score for row in constant.sets] == [0, 0]


def test_without_labels_all_samples_are_one_class_and_it_is_said():
    found = ranked(labels=None)
    assert any("No labels" in note for note in found.notes)
    assert set(found.sets[0].outside) == {"all samples"}
    assert found.sets[0].connections == ()


def test_the_ranking_becomes_json_a_table_and_a_figure(tmp_path):
    found = ranked()
    assert json.loads(json.dumps(found.to_dict()))["sets"][0]["name"] == "ad"
    assert [line.split()[1] for line in found.table().splitlines()[1:3]] == ["ad", "e"]
    assert "upper estimate" in found.table()
    found.figure().savefig(tmp_path / "curves.png")
    assert (tmp_path / "curves.png").stat().st_size > 1000


def test_the_default_sets_are_pairs_the_ladder_and_strengths():
    assert len(augmentation_sets()) == 10 + 4 + 3


def test_sets_are_named_by_letters_and_strength():
    named = augmentation_sets(["abc", "ad:0.25"])
    assert list(named) == ["(a,b,c)", "(a,d) x 0.25"]
    assert named["(a,d) x 0.25"].describe() == from_letters("ad", strength=0.25).describe()
    with pytest.raises(ValueError, match="got 'ad:strong'"):
        augmentation_sets(["ad:strong"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"labels": torch.tensor([0] * 23 + [1])}, "one sample only"),
        ({"per_class": 1}, "at least 2"),
        ({"views": 1}, "at least 2 views"),
        ({"sets": ()}, "no augmentation sets"),
        ({"deltas": [0.0]}, "above 0"),
    ],
)
def test_bad_input_is_refused_in_words(options, words):
    with pytest.raises(ValueError, match=words):
        ranked(**options)


def test_the_stage_ranks_named_sets_and_writes_a_page(tmp_path):
    page = tmp_path / "views.html"
    answer = views(sets=("ad", "e"), per_class=4, view_count=3, resamples=2, output=page, quiet=True)
    assert {row["name"] for row in answer.to_dict()["sets"]} == {"(a,d)", "(e)"}
    assert "Outside the main part" in page.read_text(encoding="utf-8")
    assert json.dumps(answer.to_dict())

"""The candidate sets of views, and how a person names others."""

import dataclasses

import pytest
import torch

from vergence import cli, config
from vergence.views import VIEWS, sample_keys, simclr
from vergence.views.candidates import COLOR, GRAY, SERIES, TABULAR, TEXT, candidates, named

SAMPLES = {
    "color": ("image", torch.randint(0, 256, (6, 3, 16, 16), dtype=torch.uint8)),
    "gray": ("image", torch.randint(0, 256, (6, 1, 16, 16), dtype=torch.uint8)),
    "series": ("series", torch.randn(6, 2, 40)),
    "tabular": ("vector", torch.randn(6, 5)),
    "text": ("text", torch.randint(1, 90, (6, 12))),
}
EVERY = [*COLOR, *GRAY, *SERIES, *TABULAR, *TEXT]


@pytest.mark.parametrize("name", SAMPLES)
def test_there_are_ten_sets_or_more_that_differ_and_keep_the_shape(name):
    kind, x = SAMPLES[name]
    sets = candidates(kind, x.shape[1:])
    assert len({one.name for one in sets}) == len(sets) >= 10
    assert len({(one.views, str(one.recipe().describe())) for one in sets}) == len(sets)
    assert sum(one.why.startswith("control") for one in sets) >= 3
    for one in sets:
        views = one.recipe().fitted(x)(x, sample_keys(0, 0, torch.arange(6)))
        assert all(view.shape == x.shape for view in views)


@pytest.mark.parametrize("one", EVERY, ids=lambda one: f"{one.views}-{one.name}")
def test_the_command_line_of_a_set_gives_its_recipe(one):
    import tyro

    argv = ["--data", "digits", *one.arguments()]
    values = dataclasses.asdict(tyro.cli(cli.form("train", argv), args=argv, config=(tyro.conf.FlagCreatePairsOff,)))
    settings = config.from_mapping(
        {
            field.name: cli._told(values[field.name])
            for field in dataclasses.fields(config.Config)
            if field.name in values
        }
    )
    assert VIEWS[settings.views](**settings.view).describe() == one.recipe().describe()


def test_sets_are_named_from_the_list_by_letters_or_by_a_row_with_options():
    assert named("usual", COLOR) is COLOR[0]
    assert named("ad:0.25", COLOR).recipe().describe() == "(a) crop + (d) color 0.25"
    other = named("simclr:strength=1,flip=false,blur=none", GRAY)
    assert other.options == {"strength": 1.0, "flip": False, "blur": None}
    assert named("series:segments=4", SERIES).options == {"segments": 4}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("usuall", "The list: usual"),
        ("ad:strong", "such as ad:0.25"),
        ("simclr:strenght=1", "Did you mean 'strength'"),
        ("simclr:strength", "needs a value"),
        ("simclr:strength=much", "makes no sense"),
    ],
)
def test_a_name_that_says_nothing_is_refused_in_words(name, words):
    with pytest.raises(ValueError, match=words):
        named(name, COLOR)


def test_an_option_out_of_range_names_the_set():
    with pytest.raises(ValueError, match="'simclr:strength=9': strength must be"):
        named("simclr:strength=9", COLOR).recipe()


def test_quarter_turns_move_pixels_and_change_none():
    x = torch.randint(0, 256, (50, 1, 6, 6), dtype=torch.uint8)
    turns = simclr(crop=False, blur=False, gray=False, color=False, flip=False, turn=True)
    views = turns.view(x, sample_keys(0, 0, torch.arange(50)))
    plain = turns.plain(x)
    found = [
        [torch.allclose(view, image.rot90(k, (1, 2))) for k in range(4)]
        for view, image in zip(views, plain, strict=True)
    ]
    assert all(any(row) for row in found)
    assert all(any(row[k] for row in found) for k in range(4))


def test_an_image_that_is_not_square_keeps_its_shape_when_turned():
    x = torch.randint(0, 256, (8, 3, 4, 6), dtype=torch.uint8)
    turns = simclr(crop=False, blur=False, gray=False, color=False, flip=False, turn=True)
    assert turns.view(x, sample_keys(0, 0, torch.arange(8))).shape == (8, 3, 4, 6)


def test_the_largest_crop_bounds_what_a_view_shows():
    tiny = simclr(blur=False, gray=False, color=False, flip=False, smallest=0.01, largest=0.05)
    rows = torch.arange(32).view(1, 1, 32, 1).expand(20, 1, 32, 32).to(torch.uint8)
    spans = tiny.view(rows, sample_keys(0, 0, torch.arange(20))).flatten(1) * 255
    assert (spans.amax(1) - spans.amin(1) <= 9).all()  # at most sqrt(.05 x 4/3) of 32 rows
    with pytest.raises(ValueError, match="largest must be"):
        simclr(smallest=0.5, largest=0.2)

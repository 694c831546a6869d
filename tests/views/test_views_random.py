"""Facts about randomness by key, and the contract that every row of VIEWS keeps."""

import math
import pickle

import pytest
import torch

from vergence import tables
from vergence.counters import normal, split, uniform
from vergence.views import GLOSSARY, VIEWS, sample_keys, simclr

RNG = torch.Generator().manual_seed(0)
SAMPLES = {
    "simclr": torch.randint(0, 256, (11, 3, 19, 17), dtype=torch.uint8, generator=RNG),
    "multi_crop": torch.randint(0, 256, (11, 3, 19, 17), dtype=torch.uint8, generator=RNG),
    "glyph": torch.rand(11, 1, 9, 7, generator=RNG),
    "halves": torch.rand(11, 1, 9, 7, generator=RNG),
    "identity": torch.rand(11, 4, generator=RNG),
    "tabular": torch.randn(11, 7, generator=RNG),
    "series": torch.randn(11, 3, 37, generator=RNG),
    "text": torch.randint(0, 50, (11, 13), generator=RNG),
    "pairs": torch.randint(0, 50, (11, 13), generator=RNG),
    "dropout": torch.randn(11, 7, generator=RNG),
    "columns": torch.randn(11, 8, generator=RNG),
    "captions": torch.randint(0, 256, (11, 3, 19, 17), dtype=torch.uint8, generator=RNG),
}
FIELDS = {
    "captions": torch.randint(1, 50, (11, 6), generator=RNG),
    "positive": torch.randint(1, 50, (11, 13), generator=RNG),
}


def fields(recipe, part=slice(None)):
    """What a recipe reads beside the samples."""
    return {name: FIELDS[name][part] for name in recipe.fields}


def test_keys_of_seeds_epochs_and_samples_are_all_different():
    keys = [sample_keys(seed, epoch, torch.arange(1000)) for seed in range(5) for epoch in range(5)]
    assert torch.cat(keys).unique().numel() == 25000


def test_keys_do_not_change_between_versions():
    assert sample_keys(0, 0, torch.arange(2)).tolist() == [-8811659837001220750, -4266547189795117041]


def test_splitmix64_gives_its_published_stream():
    # The first outputs of splitmix64 from state 1234567, as in Rosetta Code's task.
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    draws = uniform(torch.tensor([1234567]), 3)[0]
    assert draws.tolist() == [(value >> 11) * 2.0**-53 for value in published]


def test_uniform_draws_are_uniform_and_unrelated_to_their_neighbors():
    draws = uniform(sample_keys(3, 1, torch.arange(2000)), 50)
    counts = torch.histc(draws, 100, 0.0, 1.0)
    assert ((counts - 1000) ** 2 / 1000).sum() < 149.4  # the 0.999 quantile of chi-squared with 99 degrees of freedom
    between_draws = torch.corrcoef(torch.stack([draws[:, :-1].flatten(), draws[:, 1:].flatten()]))[0, 1]
    between_keys = torch.corrcoef(torch.stack([draws[:-1].flatten(), draws[1:].flatten()]))[0, 1]
    assert max(abs(between_draws), abs(between_keys)) < 4 / math.sqrt(98000)


def test_draws_of_split_keys_are_unrelated():
    keys = sample_keys(0, 0, torch.arange(50000))
    pair = torch.stack([uniform(split(keys, 0), 1)[:, 0], uniform(split(keys, 1), 1)[:, 0]])
    assert abs(torch.corrcoef(pair)[0, 1]) < 4 / math.sqrt(50000)


def test_normal_draws_have_the_normal_distribution():
    draws = normal(sample_keys(0, 0, torch.arange(1000)), 50).flatten()
    for point in (-2.0, -1.0, 0.0, 1.0, 2.0):
        expected = 0.5 * (1 + math.erf(point / math.sqrt(2)))
        assert abs((draws < point).double().mean() - expected) < 4 * math.sqrt(expected * (1 - expected) / 50000)


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_the_views_of_a_sample_are_the_same_bits_in_any_batch(name, size):
    x, keys, recipe = SAMPLES[name], sample_keys(0, 0, torch.arange(11)), VIEWS[name]()
    places = torch.arange(11).split(size)
    parts = [recipe(x[some], keys[some], fields(recipe, some)) for some in places]
    for whole, *pieces in zip(recipe(x, keys, fields(recipe)), *parts, strict=True):
        assert torch.equal(whole, torch.cat(pieces))


@pytest.mark.parametrize("channels", [1, 3])
def test_chunks_and_threads_do_not_change_a_bit(channels, monkeypatch):
    x = torch.randint(0, 256, (40, channels, 33, 35), dtype=torch.uint8, generator=RNG)
    keys = sample_keys(0, 0, torch.arange(40))
    whole = simclr(blur=True).view(x, keys)
    monkeypatch.setattr("vergence.views.steps.CACHED", 3 * x[0].numel())
    torch.set_num_threads(2)
    assert torch.equal(simclr(blur=True).view(x, keys), whole)
    torch.set_num_threads(1)


@pytest.mark.parametrize("name", VIEWS)
def test_every_recipe_keeps_its_contract(name):
    x, keys, recipe = SAMPLES[name], sample_keys(0, 0, torch.arange(11)), VIEWS[name]()
    before, read = x.clone(), fields(recipe)
    views = recipe(x, keys, read)
    assert len(views) == len(recipe.views) == len(recipe.groups) >= 2
    for view, facts in zip(views, recipe.views, strict=True):
        assert view.dtype == (torch.int64 if (facts.kind or recipe.kind) == "text" else torch.float32)
    for view, group in zip(views, recipe.groups, strict=True):
        assert group or view.shape == recipe.plain(x).shape
    assert torch.equal(views[1], recipe.view(x, keys, number=1, fields=read))
    assert torch.equal(x, before)
    again = pickle.loads(pickle.dumps(recipe))(x, keys, read)
    assert all(torch.equal(view, other) for view, other in zip(views, again, strict=True))
    assert all(view.shape[0] == 0 for view in recipe(x[:0], keys[:0], fields(recipe, slice(0))))
    assert recipe.describe()


def test_every_option_is_explained():
    options = {option for name in VIEWS for option in tables.keywords("views", name)}
    assert options == set(GLOSSARY)

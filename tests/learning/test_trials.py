"""Short trials and the race between them."""

import math

import pytest
import torch
import torch.nn.functional as F

from vergence.learning import trials
from vergence.learning.trials import Trial, batch_of, going_on, laps, neighbor_votes, planned_steps, race, reduced
from vergence.views import glyph, identity

X = torch.randint(0, 256, (40, 1, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


class Runner(Trial):
    """A trial that learns nothing: its units are given for every step."""

    def __init__(self, units):
        self.step, self.units = 0, units

    def advance(self, steps, stepped=print):
        for _ in range(steps):
            self.step += 1
            stepped(1)


def raced(units, rungs=(1, 2, 3), **options):
    runners = {name: Runner(torch.as_tensor(values).float()) for name, values in units.items()}
    return race(runners, lambda runner: runner.units, rungs=rungs, **options), runners


def test_neighbors_vote_for_the_class_around_a_sample_and_never_for_the_sample_itself():
    h = torch.cat([torch.tensor([[1.0, 0.0]]).repeat(5, 1), torch.tensor([[0.0, 1.0]]).repeat(5, 1)])
    assert neighbor_votes(h, torch.arange(10) // 5, k=3).mean() == 1
    assert neighbor_votes(h, torch.arange(10)).sum() == 0  # every sample is alone in its class


def test_samples_of_the_own_group_do_not_vote():
    people, classes = torch.arange(40) // 10, torch.arange(40) % 2
    h = torch.cat([F.one_hot(people, 4), 0.1 * F.one_hot(classes, 2)], dim=1)  # a person is seen, a class hardly
    assert neighbor_votes(h, people).mean() == 1
    assert neighbor_votes(h, people, people).sum() == 0  # what only tells people apart counts for nothing
    assert neighbor_votes(h, classes, people).mean() == 1
    assert neighbor_votes(h, classes, torch.arange(40)).equal(neighbor_votes(h, classes))  # every sample by itself


def test_with_every_unit_a_group_of_its_own_intervals_are_students_and_copies_of_a_group_add_no_certainty():
    units = torch.rand(12, generator=torch.Generator().manual_seed(0))
    half = 2.200985 * units.std() / 12**0.5  # the 97.5 % quantile of Student's t with 11 degrees of freedom
    few = raced({"a": units, "b": 0 * units}, spread=0.0, groups=torch.arange(12))[0][0].last.interval
    torch.testing.assert_close(torch.tensor(few), torch.stack([units.mean() - half, units.mean() + half]))
    copies = raced({"a": units.repeat(50), "b": torch.zeros(600)}, spread=0.0, groups=torch.arange(12).repeat(50))
    torch.testing.assert_close(torch.tensor(copies[0][0].last.interval), torch.tensor(few))


def test_a_difference_that_one_group_makes_is_a_tie_although_its_samples_are_many():
    better = torch.zeros(700)
    better[:100] = 1.0  # one of seven people
    alone = raced({"a": better, "b": torch.zeros(700)})[0]
    people = raced({"a": better, "b": torch.zeros(700)}, groups=torch.arange(700) // 100)[0]
    assert not alone[1].tied
    assert people[1].tied


def test_votes_do_not_depend_on_the_size_of_the_chunks(monkeypatch):
    h, labels = torch.randn(30, 4), torch.arange(30) % 3
    whole = neighbor_votes(h, labels)
    monkeypatch.setattr(trials, "CHUNK", 7)
    assert torch.equal(neighbor_votes(h, labels), whole)


@pytest.mark.parametrize("n", [5, 128, 300])
def test_an_epoch_is_a_permutation_and_epochs_differ(n):
    per_epoch = n // min(trials.BATCH, n)
    seen = [
        torch.cat([batch_of(n, step, seed=0)[0] for step in range(e * per_epoch, (e + 1) * per_epoch)]) for e in (0, 1)
    ]
    assert all(len(epoch.unique()) == per_epoch * min(trials.BATCH, n) for epoch in seen)
    assert not torch.equal(*seen)
    assert torch.equal(batch_of(n, 0, seed=0)[0], batch_of(n, 0, seed=0)[0])


def test_a_trial_in_two_parts_is_the_trial_at_once():
    whole, parts = (Trial(X, glyph(), "image", seed=1) for _ in range(2))
    whole.advance(4)
    parts.advance(1)
    parts.advance(3)
    assert torch.equal(whole.represent(X), parts.represent(X))


def test_trials_of_a_race_start_from_the_same_weights():
    first, second = (Trial(X, recipe, "image", seed=3) for recipe in (glyph(), identity()))
    assert torch.equal(first.represent(X), second.represent(X))


def test_the_rate_warms_up_and_falls_to_nothing_at_the_horizon():
    trial = Trial(X, glyph(), "image", horizon=50)
    rates = []
    for trial.step in range(51):
        rates.append(trial._rate())
    assert rates[0] == pytest.approx(trials.RATE / trials.WARMUP)
    assert max(rates) == pytest.approx(trials.RATE)
    assert rates[50] == pytest.approx(0)


def test_a_third_goes_on_and_the_steps_are_those_that_were_planned():
    assert [going_on(count) for count in (12, 4, 2, 13, 2, 1)] == [4, 2, 2, 5, 2, 1]
    counted = []
    raced({str(n): [n / 12] * 5 for n in range(12)}, rungs=laps(2), stepped=counted.append)
    assert len(counted) == planned_steps(12, laps(2)) == 12 * 2 + 4 * 2 + 2 * 2


def test_the_best_comes_first_and_those_that_stopped_come_last():
    found, _ = raced({str(n): [n / 12] * 5 for n in range(12)})
    assert [row.name for row in found] == [str(n) for n in reversed(range(12))]
    assert [len(row.readings) for row in found] == [3, 3, 2, 2, *[1] * 8]
    assert found[0].best
    assert sum(row.best for row in found) == 1


def test_equal_sets_are_tied_and_distant_ones_are_not():
    right = torch.ones(1000)
    found, _ = raced({"good": right, "same": right, "bad": torch.zeros(1000)})
    assert {row.name: row.tied for row in found} == {"good": True, "same": True, "bad": False}
    assert next(row for row in found if row.name == "bad").behind == 1


def test_pairing_samples_tells_apart_what_intervals_of_each_do_not():
    generator = torch.Generator().manual_seed(0)
    hard = (torch.rand(2000, generator=generator) < 0.5).float()
    better = torch.where(torch.arange(2000) % 25 == 0, torch.ones(2000), hard)
    found, _ = raced({"better": better, "worse": hard}, spread=0.0)
    assert found[0].last.interval[0] < found[1].last.interval[1]  # the intervals overlap
    assert not found[1].tied


def test_the_luck_of_a_seed_widens_intervals():
    narrow, wide = (raced({"a": [0.5] * 9, "b": [0.48] * 9}, spread=spread)[0][1] for spread in (0.0, 0.1))
    assert not narrow.tied
    assert wide.tied
    assert wide.interval[1] - wide.interval[0] == pytest.approx(2 * trials.SURE * math.sqrt(2) * 0.1)


def test_large_images_are_reduced_and_keep_their_aspect_and_mean():
    x = torch.full((3, 3, 64, 256), 77, dtype=torch.uint8)
    small = reduced(x, "image")
    assert small.shape == (3, 3, 16, 64)
    assert (small == 77).all()
    assert reduced(X, "image") is X
    assert reduced(torch.ones(2, 1, 1000), "series").shape == (2, 1, trials.MOMENTS)
    assert reduced(torch.ones(2, 99, dtype=torch.long), "text").shape == (2, trials.TOKENS)


def test_the_label_free_score_is_one_number_a_batch_and_higher_for_an_encoder_that_is_not_blind():
    trial = Trial(X, glyph(), "image")
    score = trials.without_labels(X, [glyph(), identity()], batches=2)
    before = score(trial)
    torch.nn.init.zeros_(trial.projector[-1].weight)
    torch.nn.init.ones_(trial.projector[-1].bias)
    assert before.shape == (2,)
    assert (score(trial) < before).all()  # all embeddings coincide: the loss is that of chance

"""Training on texts: hard negatives, two encoders, dropout as a view, sparse gradients, and exact continuation."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from vergence import train
from vergence.config import Optim
from vergence.learning import LEARNERS, Problem, rows
from vergence.learning.loop import by_length, gradient
from vergence.learning.optimizers import optimizer
from vergence.learning.rows import RowAdam, WithRows
from vergence.methods import METHODS
from vergence.objectives import info_nce
from vergence.runs.run import Run

WORDS = ["sea", "ship", "whale", "captain", "storm", "wind", "night", "lamp", "door", "letter"]


def corpus(path, count=240):
    draw = np.random.default_rng(0)
    lines = [f"book{i // 60}\t" + " ".join(draw.choice(WORDS, draw.integers(2, 12))) for i in range(count)]
    path.write_text("\n".join(lines))
    return f"text:{path}"


def test_hard_negatives_stand_beside_those_of_the_batch():
    torch.manual_seed(0)
    query, key, hard = (nn.functional.normalize(torch.randn(n, 6, dtype=torch.float64), dim=1) for n in (5, 5, 3))
    scores = torch.cat([query @ key.T, query @ hard.T], 1) / 0.1
    expected = nn.functional.cross_entropy(scores, torch.arange(5))
    torch.testing.assert_close(info_nce(query, key, hard_negatives=hard, temperature=0.1), expected)


def bag(view=0):
    from vergence.encoders import build

    return build("bag", (9,), vocabulary=30, width=8)


def test_a_learner_gives_its_hard_negatives_to_the_objective():
    problem = Problem(encoder=bag, shape=(9,), kind="text", groups=(0, 0, 1), negatives=1)
    learner = LEARNERS["two_view"](METHODS["simcse"], problem)
    views = [torch.randint(1, 30, (6, 4)) for _ in range(3)]
    z = [learner.encoder(view) for view in views]
    torch.testing.assert_close(learner(views), info_nce(z[0], z[1], hard_negatives=z[2], temperature=0.05))


@pytest.mark.parametrize("name", ["bag", "bigru"])
def test_views_of_different_lengths_are_encoded_together_as_they_are_apart(name):
    from vergence.encoders import build
    from vergence.learning.pairs import encoded

    torch.manual_seed(0)
    encoder = build(name, (9,), vocabulary=30).double()
    views = [torch.randint(1, 30, (6, 4)), torch.randint(1, 30, (6, 7))]
    for one, view in zip(encoded(encoder, nn.Identity(), views), views, strict=True):
        torch.testing.assert_close(one, encoder(view))


def test_quick_thought_keeps_both_encoders_side_by_side():
    learner = LEARNERS["context"](METHODS["quick_thought"], Problem(encoder=bag, shape=(9,), kind="text"))
    x = torch.randint(1, 30, (6, 4))
    h = learner.encoder(x)
    assert learner.encoder.width == 16
    torch.testing.assert_close(h[:, :8], nn.functional.normalize(learner.encoder.first(x), dim=1))
    torch.testing.assert_close(h[:, 8:], nn.functional.normalize(learner.encoder.second(x), dim=1))
    first, second = learner.encoder.first(x), learner.encoder.second(x.flip(0))
    torch.testing.assert_close(learner([x, x.flip(0)]), info_nce(first, second, temperature=0.075))


def test_rows_of_tokens_that_did_not_occur_stay_as_they_were():
    encoder = bag()
    steps = optimizer(encoder, Optim(learning_rate=0.1))
    assert isinstance(steps, WithRows)
    before = encoder.tokens.vectors.weight.detach().clone()
    encoder(torch.tensor([[3, 4]])).sum().backward()
    steps.step()
    moved = (encoder.tokens.vectors.weight.detach() != before).any(1)
    assert moved.nonzero()[:, 0].tolist() == [3, 4]


def test_moments_of_both_optimizers_survive_saving():
    def stepped(encoder, steps, count):
        for number in range(count):
            encoder(torch.tensor([[3 + number, 4]])).square().sum().backward()
            steps.step()
            steps.zero_grad()
        return encoder.tokens.vectors.weight.detach().clone()

    torch.manual_seed(0)
    one = bag()
    steps = optimizer(one, Optim())
    stepped(one, steps, 2)
    saved, weights = steps.state_dict(), {name: value.clone() for name, value in one.state_dict().items()}
    kept = {
        key: {name: torch.as_tensor(v).clone() for name, v in value.items()} for key, value in saved["state"].items()
    }
    ended = stepped(one, steps, 3)
    two = bag()
    two.load_state_dict(weights)
    again = optimizer(two, Optim())
    again.load_state_dict({**again.state_dict(), "state": kept})
    assert torch.equal(stepped(two, again, 3), ended)


def test_texts_of_a_batch_are_about_equally_long():
    lengths = torch.randint(1, 60, (6400,), generator=torch.Generator().manual_seed(0))
    order = torch.randperm(6400, generator=torch.Generator().manual_seed(1))
    sorted_into = by_length(order, lengths, 64, seed=3)
    assert torch.equal(sorted_into.sort().values, torch.arange(6400))
    assert torch.equal(sorted_into, by_length(order, lengths, 64, seed=3))
    padded, bucketed = (lengths[rows.view(-1, 64)].amax(1).sum() * 64 for rows in (order, sorted_into))
    assert bucketed / lengths.sum() < 1.05 < padded / lengths.sum()


def test_the_gradient_in_chunks_draws_the_same_dropout_twice():
    """With masks of their own in the second pass, the weights would follow another loss than the one that is told."""
    from vergence.encoders import build

    torch.manual_seed(0)
    problem = Problem(lambda view: build("transformer", (6,), vocabulary=30, width=8, heads=2, dropout=0.5), (6,))
    learner = LEARNERS["two_view"](METHODS["simcse"], problem).train()
    x = torch.randint(1, 30, (8, 6))
    seen = []
    learner.encoder.register_forward_hook(lambda module, given, h: seen.append(h.detach()))
    gradient(learner, [x, x], None, chunk=4)
    first, second = seen[: len(seen) // 2], seen[len(seen) // 2 :]
    assert all(torch.equal(one, two) for one, two in zip(first, second, strict=True))
    assert not torch.equal(first[0], first[1])  # the two masks of one sentence differ


RUNS = {
    "bag": {"method": "align_uniform", "encoder": "bag", "backbone": {"width": 8}},
    "quick_thought": {"method": "quick_thought", "encoder": "bigru", "backbone": {"embedding": 8, "hidden": 4}},
    "simcse": {"method": "simcse", "backbone": {"width": 8, "depth": 1, "heads": 2}},
}


@pytest.mark.parametrize("name", RUNS)
def test_a_text_run_that_was_stopped_ends_as_one_that_was_not(tmp_path, unassessed, name):
    pairs = "" if name == "simcse" else ",pairs=next"
    options = {**RUNS[name], "data": corpus(tmp_path / "a.tsv") + pairs, "batch": 32, "track": ()}
    options |= {"saving": {"every": 1}, "watching": {"every": 0}, "optim": {"schedule": "constant", "warmup": 0.0}}
    train(run=tmp_path / "whole", epochs=4, quiet=True, **options)
    train(run=tmp_path / "parts", epochs=2, quiet=True, **options)
    train(run=tmp_path / "parts", epochs=4, quiet=True, resume=True, **options)
    whole, parts = (Run(tmp_path / part).load().tensors for part in ("whole", "parts"))
    assert whole.keys() == parts.keys()
    assert all(torch.equal(whole[key], parts[key]) for key in whole)


def test_views_by_dropout_need_an_encoder_that_has_some(tmp_path):
    with pytest.raises(ValueError, match="differ by the encoder's dropout alone, but bag has none"):
        train(data=corpus(tmp_path / "a.tsv"), method="simcse", encoder="bag", run=tmp_path / "run", quiet=True)


def test_a_method_that_takes_no_negatives_says_so(tmp_path):
    lines = "\n".join(f"{WORDS[i % 10]}\t{WORDS[i % 7]}\t{WORDS[i % 3]}" for i in range(60))
    (tmp_path / "a.tsv").write_text(lines)
    with pytest.raises(ValueError, match="align_uniform takes no explicit negatives, and the data has 1"):
        train(data=f"pairs:{tmp_path}/a.tsv", method="align_uniform", run=tmp_path / "run", quiet=True)


def test_rows_are_moved_as_torch_moves_them_in_parts_or_at_once(monkeypatch):
    monkeypatch.setattr(rows, "ROWS", 3)
    start = torch.randn(20, 4, dtype=torch.float64)
    ours, theirs = (torch.nn.Parameter(start.clone()) for _ in range(2))
    steps = (RowAdam([ours], lr=1e-2), torch.optim.SparseAdam([theirs], lr=1e-2))
    for _ in range(4):
        read, outer = torch.randint(20, (11,)), torch.randn(11, 4, dtype=torch.float64)
        for weight, step in zip((ours, theirs), steps, strict=True):
            (functional.embedding(read, weight, sparse=True) * outer).sum().backward()
            step.step()
            step.zero_grad()
    torch.testing.assert_close(ours, theirs, rtol=1e-14, atol=1e-14)
    assert steps[0].state_dict()["state"][0].keys() == steps[1].state_dict()["state"][0].keys()

"""Token weights that are counted in training: a resumed run, and the pairs of several processes."""

import pytest
import torch

from vergence import config as configs
from vergence.encoders import build
from vergence.learning import optimizers
from vergence.learning.loop import fit
from vergence.runs import assembly


@pytest.fixture
def books(tmp_path):
    path = tmp_path / "books.tsv"
    words = [f"word{number * number % 31}" for number in range(600)]
    path.write_text("".join(f"book{i // 50}\t{' '.join(words[i : i + 5])}\n" for i in range(400)))
    return path


def begun(books):
    options = {"encoder": "bag", "backbone": {"repeats": True, "width": 8}, "method": "align_uniform", "batch": 40}
    config = configs.given(data=f"text:{books},pairs=next,tokens=word", heads={"projector": ()}, epochs=1, **options)
    parts = assembly.assemble(config)
    return parts, optimizers.optimizer(parts.learner, parts.config.optim)


def test_a_resumed_run_counts_on_where_it_stopped(books):
    (whole, first), (halted, second), (resumed, third) = (begun(books) for _ in range(3))
    *_, last = fit(whole.learner, first, whole.samples, whole.recipe, whole.config)
    for step in fit(halted.learner, second, halted.samples, halted.recipe, halted.config):
        if step.number == 3:
            break
    resumed.learner.load_state_dict(halted.learner.state_dict())
    third.load_state_dict(second.state_dict())
    *_, end = fit(resumed.learner, third, resumed.samples, resumed.recipe, resumed.config, start=3)
    assert end.loss == last.loss
    tokens, others = whole.learner.encoder.tokens, resumed.learner.encoder.tokens
    assert int(tokens.pairs) == last.number * 40
    assert torch.equal(tokens.log_weight, others.log_weight)
    before, _ = begun(books)
    assert not torch.allclose(tokens.log_weight, before.learner.encoder.tokens.log_weight)


def test_counts_of_two_processes_are_those_of_one_with_all_pairs():
    first, second = torch.randint(0, 9, (2, 20, 4), generator=torch.Generator().manual_seed(0))
    one, two = (build("bag", (4,), vocabulary=9, width=4, repeats=True).tokens for _ in range(2))
    one.observe(first, second)
    counts = []
    two.observe(first[12:], second[12:], lambda own: counts.append(own) or own)
    fresh = build("bag", (4,), vocabulary=9, width=4, repeats=True).tokens
    fresh.observe(first[:12], second[:12], lambda own: own + counts[0])
    torch.testing.assert_close(fresh.log_weight, one.log_weight)

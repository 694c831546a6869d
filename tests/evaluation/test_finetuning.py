"""Fine-tuning: it starts at the probe, moves a copy, and draws labels evenly."""

import pytest
import torch
from torch import nn

from vergence.evaluation.finetuning import classified, fine_tuned, fine_tuning, headed, share_for, steps_for
from vergence.runs.finetuned import chosen


def blobs(n=120, classes=3, d=6, seed=0):
    labels = torch.arange(n) % classes
    noise = torch.randn(n, d, generator=torch.Generator().manual_seed(seed))
    return 3 * torch.eye(d)[labels] + noise, labels


@pytest.mark.parametrize("classes", [2, 3])
def test_a_head_from_the_probe_is_scikit_learns_classifier_before_the_first_step(classes):
    from sklearn.linear_model import LogisticRegression

    x, labels = blobs(classes=classes)
    center, scale = x.mean(0), (x - x.mean(0)).square().mean().sqrt()
    rows = ((x - center) / scale).numpy()
    model = headed(nn.Identity(), x, labels, classes=classes, probe=True)
    penalty = model[1].penalty / float(scale) ** 2 / (2 if classes == 2 else 1)  # of two, scikit-learn has one row
    expected = LogisticRegression(C=1 / (penalty * len(x)), max_iter=500).fit(rows, labels.numpy())
    torch.testing.assert_close(
        model(x).softmax(1), torch.from_numpy(expected.predict_proba(rows)).float(), rtol=1e-3, atol=1e-4
    )


@pytest.mark.parametrize("classes", [2, 3])
def test_a_head_from_the_probe_is_where_training_it_alone_would_end(classes):
    x, labels = blobs(classes=classes)
    model = headed(nn.Identity(), x, labels, classes=classes, probe=True)
    head = model[1]
    loss = nn.functional.cross_entropy(model(x), labels) + head.penalty * head.weight.square().sum() / 2
    for gradient in torch.autograd.grad(loss, head.parameters()):
        torch.testing.assert_close(gradient, torch.zeros_like(gradient), rtol=0, atol=2e-4)


def test_with_few_labels_the_encoder_takes_a_share_of_the_rate():
    assert (share_for(10), share_for(100), share_for(5000)) == (0.01, 0.1, 1.0)
    x, labels = blobs()
    start, moved = nn.Linear(6, 8), {}
    for share in (0.0, 0.1, 1.0):
        model = fine_tuned(headed(start, x, labels, classes=3, probe=True), x, labels, steps=1, share=share)
        moved[share] = float((model[0].weight - start.weight).detach().abs().max())
    assert moved[0.0] == 0
    assert moved[0.1] == pytest.approx(moved[1.0] / 10, rel=0.01)


def test_the_encoder_that_is_given_does_not_move_and_the_copy_does():
    x, labels = blobs()
    encoder = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8))
    before = {name: value.clone() for name, value in encoder.state_dict().items()}
    model = fine_tuned(headed(encoder, x, labels, classes=3, probe=True), x, labels, steps=5)
    for name, value in encoder.state_dict().items():
        torch.testing.assert_close(value, before[name], rtol=0, atol=0)
    assert not torch.equal(model[0][0].weight, encoder[0].weight)


def test_the_same_seed_gives_the_same_bits():
    x, labels = blobs()
    made = [fine_tuned(headed(nn.Linear(6, 8), x, labels, classes=3, probe=True), x, labels, steps=4) for _ in (0,)]
    again = fine_tuned(headed(made[0][0], x, labels, classes=3, probe=True), x, labels, steps=4, seed=1)
    twice = fine_tuned(headed(made[0][0], x, labels, classes=3, probe=True), x, labels, steps=4, seed=1)
    assert torch.equal(again[1].weight, twice[1].weight)


def test_moving_the_encoder_learns_what_a_frozen_one_cannot_tell():
    """The class is the sign of a product: no line through the inputs tells it, a hidden layer that moves does."""
    x = torch.randn(400, 2, generator=torch.Generator().manual_seed(3))
    labels = (x[:, 0] * x[:, 1] > 0).long()
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Linear(2, 32), nn.ReLU())
    moved = fine_tuning(x[:300], labels[:300], x[300:], labels[300:], encoder=encoder, steps=400, rate=1e-2)
    assert moved.accuracy > 0.9
    assert fine_tuning(x[:300], labels[:300], x[300:], labels[300:]).accuracy < 0.7


def test_a_class_without_labels_is_never_chosen():
    x, labels = blobs(classes=3)
    some = labels < 2
    model = headed(nn.Identity(), x[some], labels[some], classes=3, probe=True)
    assert set(classified(model, x).tolist()) == {0, 1}


def test_steps_follow_the_labels_between_bounds():
    assert (steps_for(10), steps_for(640), steps_for(10**6)) == (150, 400, 2000)


@pytest.mark.parametrize(("spec", "counts"), [("10%", (5, 5, 2)), ("2-per-class", (2, 2, 2)), ("all", (50, 50, 20))])
def test_labels_are_drawn_evenly(spec, counts):
    labels = torch.tensor([0] * 50 + [1] * 50 + [2] * 20)
    rows = [chosen(spec, labels, seed=seed) for seed in (0, 1)]
    assert tuple(labels[rows[0]].bincount().tolist()) == counts
    assert spec == "all" or not torch.equal(rows[0], rows[1])


@pytest.mark.parametrize("spec", ["0%", "101%", "ten", "0-per-class", "-5", "1%", "41-per-class"])
def test_a_number_of_labels_that_makes_no_sense_is_refused(spec):
    with pytest.raises(ValueError, match="abels"):
        chosen(spec, torch.arange(120) % 3, seed=0)

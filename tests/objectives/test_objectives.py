"""One contract for every objective: a pure, differentiable, exact function that refuses bad input by name."""

import subprocess
import sys
from functools import cache

import pytest
import torch
from torch.nn.functional import normalize

from vergence.objectives import GLOSSARY, OBJECTIVES
from vergence.tables import FROM_LEARNER, keywords, parameters

BATCHES = ["random", "collapsed", "orthogonal", "antipodal"]
CONTRASTIVE = ["info_nce", "nt_xent", "decoupled", "revised_info_nce", "two_modal", "supervised"]
OF_ONE = ["uniformity", "sigreg", "koleo"]  # rows that take one view
NORMALIZING = [
    *CONTRASTIVE,
    "siglip",
    "koleo",
    "tico",
    "mmcr",
    "flat_nce",
    "linear_contrastive",
    "triplet",
    "alignment",
    "uniformity",
    "align_uniform",
]


def batch(kind="random", n=16, d=8, dtype=torch.float64):
    generator = torch.Generator().manual_seed(n)
    z, other = torch.randn(2, n, d, generator=generator)
    views = {
        "random": (z, z + other),
        "collapsed": (z[:1].repeat(n, 1), z[:1].repeat(n, 1)),
        "orthogonal": (torch.eye(n, max(n, d)), torch.eye(n, max(n, d)).roll(1, 0)),
        "antipodal": (z, -z),
    }[kind]
    return tuple(view.to(dtype) for view in views)


def inputs(name, z1, z2):
    """What the row takes: one embedding, two, or two and labels."""
    if name in OF_ONE:
        return (z1,)
    return (z1, z2, torch.arange(len(z1)) % 3) if name == "supervised" else (z1, z2)


def loss_and_gradient(name, z1, z2, **hyperparameters):
    z1 = z1.clone().requires_grad_()
    loss = OBJECTIVES[name](*inputs(name, z1, z2), **hyperparameters)
    return loss.detach(), torch.autograd.grad(loss, z1)[0]


@pytest.mark.parametrize("name", OBJECTIVES)
def test_it_is_pure_and_returns_one_finite_number(name):
    for kind in BATCHES:
        z1, z2 = batch(kind)
        kept = z1.clone(), z2.clone()
        loss, gradient = loss_and_gradient(name, z1, z2)
        assert loss.shape == ()
        assert torch.isfinite(loss)
        assert torch.isfinite(gradient).all()
        assert torch.equal(z1, kept[0])
        assert torch.equal(z2, kept[1])


@pytest.mark.parametrize("name", sorted(set(OBJECTIVES) - {"flat_nce"}))
def test_its_gradient_agrees_with_finite_differences(name):
    z1, z2 = (z.requires_grad_() for z in batch(n=5, d=3))
    arguments = inputs(name, z1, z2)
    assert torch.autograd.gradcheck(OBJECTIVES[name], arguments)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_the_order_of_the_samples_does_not_matter(name):
    z1, z2 = batch()
    order = torch.randperm(16, generator=torch.Generator().manual_seed(1))
    arguments = inputs(name, z1, z2)
    shuffled = OBJECTIVES[name](*(argument[order] for argument in arguments))
    torch.testing.assert_close(shuffled, OBJECTIVES[name](*arguments))


@pytest.mark.parametrize("name", NORMALIZING)
def test_the_lengths_of_the_rows_do_not_matter(name):
    z1, z2 = batch()
    lengths = torch.linspace(0.1, 9, 16, dtype=torch.float64)[:, None]
    plain, scaled = (OBJECTIVES[name](*inputs(name, z1 * s, z2)) for s in (1.0, lengths))
    torch.testing.assert_close(plain, scaled)


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("kind", BATCHES)
def test_float32_is_exact_to_its_rounding(name, kind):
    agree(name, kind, n=31)


@pytest.mark.parametrize("name", CONTRASTIVE)
@pytest.mark.parametrize("temperature", [0.01, 0.015, 0.07, 10.0])
@pytest.mark.parametrize("n", [2, 97])
def test_float32_is_exact_at_every_temperature(name, temperature, n):
    for kind in BATCHES:
        agree(name, kind, n=n, temperature=temperature)


def agree(name, kind, n, **hyperparameters):
    """Value to 1e-6 and gradient to 1e-5 of float64, relative to the largest gradient of the four batches.

    Where the truth is nought, as for a collapsed batch, what counts is rounding against the terms that cancel.
    """
    pairs = (batch(kind, n=n, d=32, dtype=dtype) for dtype in (torch.float32, torch.float64))
    (value, gradient), (true_value, true_gradient) = (loss_and_gradient(name, *z, **hyperparameters) for z in pairs)
    natural = largest_gradient(name, n, **hyperparameters)
    assert abs(value - true_value) <= 1e-6 * max(1.0, abs(true_value))
    assert (gradient - true_gradient).norm() <= 1e-5 * natural


LARGE = {
    "uniformity": lambda z1, _: torch.pdist(normalize(z1, dim=1)).square().mul(-2).exp().mean().log(),
    "spectral": lambda z1, z2: dense_spectral(*(z / z.norm(dim=1, keepdim=True).clamp(min=1) for z in (z1, z2))),
    "barlow_twins": lambda z1, z2: dense_barlow_twins(*((z - z.mean(0)) / z.std(0, correction=0) for z in (z1, z2))),
}


@pytest.mark.parametrize("name", LARGE)
def test_float32_is_exact_in_large_batches(name):
    z1, z2 = batch(n=4093, d=16)
    value = LARGE[name](z1.requires_grad_(), z2)
    agree_closely(*loss_and_gradient(name, z1.float(), z2.float()), value, *torch.autograd.grad(value, z1))


@pytest.mark.parametrize(("n", "temperature"), [(4096, 0.1), (4093, 0.5)])
def test_nt_xent_in_float32_is_exact_in_large_batches(n, temperature):
    z1, z2 = batch(n=n, d=16)
    z = torch.cat([z1, z2]).requires_grad_()
    u = normalize(z, dim=1)
    value, gradient = blockwise_nt_xent(u.detach(), temperature)
    (gradient,) = torch.autograd.grad(u, z, gradient)
    ours = loss_and_gradient("nt_xent", z1.float(), z2.float(), temperature=temperature)
    agree_closely(*ours, value, gradient[:n])


def agree_closely(value, gradient, true_value, true_gradient):
    assert abs(value - true_value) <= 1e-6 * abs(true_value)
    assert (gradient - true_gradient).norm() <= 1e-5 * true_gradient.norm()


def blockwise_nt_xent(u, temperature, rows=256):
    """The loss of 2n directions and its gradient: softmax less one-hot, by blocks of anchors to save memory."""
    value, gradient, n = 0.0, torch.zeros_like(u), len(u) // 2
    for own in torch.arange(2 * n).split(rows):
        anchors, partners = torch.arange(len(own)), (own + n) % (2 * n)
        scores = u[own] @ u.T / temperature
        scores[anchors, own] = -torch.inf
        errors = scores.softmax(1)
        value -= errors[anchors, partners].log().sum()
        errors[anchors, partners] -= 1
        gradient[own] += errors @ u
        gradient += errors.T @ u[own]
    return value / (2 * n), gradient / (2 * n * temperature)


def dense_spectral(z1, z2):
    n, scores = len(z1), z1 @ z2.T
    return (scores.square().sum() - scores.diagonal().square().sum()) / (n * (n - 1)) - 2 * scores.diagonal().mean()


def dense_barlow_twins(z1, z2):
    correlation, identity = z1.T @ z2 / len(z1), torch.eye(z1.shape[1]).double()
    return ((correlation - identity).square() * (5e-3 + (1 - 5e-3) * identity)).sum()


@cache
def largest_gradient(name, n, **hyperparameters):
    return max(loss_and_gradient(name, *batch(kind, n=n, d=32), **hyperparameters)[1].norm() for kind in BATCHES)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_bfloat16_is_computed_in_float32(name):
    z1, z2 = (z.bfloat16() for z in batch(n=32))
    half, gradient = loss_and_gradient(name, z1, z2)
    single, true_gradient = loss_and_gradient(name, z1.float(), z2.float())
    torch.testing.assert_close(half, single, rtol=0, atol=0)
    torch.testing.assert_close(gradient.float(), true_gradient, rtol=2**-8, atol=1e-6)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_autocast_changes_nothing(name):
    z1, z2 = batch(dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        lowered = OBJECTIVES[name](*inputs(name, z1, z2))
    torch.testing.assert_close(lowered, OBJECTIVES[name](*inputs(name, z1, z2)), rtol=0, atol=0)


COMPILED = """
import torch
from vergence.objectives import OBJECTIVES

z1, z2 = torch.randn(2, 16, 8, generator=torch.Generator().manual_seed(0))
z1.requires_grad_()
for name in ("nt_xent", "barlow_twins"):
    plain, compiled = OBJECTIVES[name], torch.compile(OBJECTIVES[name], backend="aot_eager", fullgraph=True)
    losses = [f(z1, z2) for f in (plain, compiled)]
    torch.testing.assert_close(*losses)
    torch.testing.assert_close(*(torch.autograd.grad(loss, z1)[0] for loss in losses))
"""


def test_they_compile_without_a_graph_break():
    """In a process of its own: the shape checks that run under pytest cannot be traced."""
    subprocess.run([sys.executable, "-c", COMPILED], check=True, timeout=300)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_bad_embeddings_are_refused_by_name(name, unchecked):
    first = next(iter(parameters("objectives", name)))
    z1, z2 = batch()
    bad = {
        "at least two samples.*got 1": (z1[:1], z2[:1]),
        "floating-point.*got torch.int64": (z1.long(), z2),
        r"two axes.*got shape \(16,\)": (z1[:, 0], z2[:, 0]),
        "row 3 has NaN": (z1.index_fill(0, torch.tensor(3), torch.nan), z2),
        "row 5 has NaN or infinity": (z1.index_fill(0, torch.tensor(5), torch.inf), z2),
    }
    if name in NORMALIZING:
        bad["row 2 has a zero vector"] = (z1.index_fill(0, torch.tensor(2), 0.0), z2)
    for message, views in bad.items():
        with pytest.raises(ValueError, match=f"^{first} must.*{message}"):
            OBJECTIVES[name](*inputs(name, *views))


@pytest.mark.parametrize("name", sorted(set(OBJECTIVES) - set(OF_ONE)))
def test_the_second_embedding_must_match_the_first(name, unchecked):
    second = list(parameters("objectives", name))[1]
    z1, z2 = batch()
    with pytest.raises(ValueError, match=rf"^{second} must have the shape of .*\(16, 8\).*got \(15, 8\)"):
        OBJECTIVES[name](*inputs(name, z1, z2[:15]))
    with pytest.raises(ValueError, match=f"^{second} must.*row 4 has NaN"):
        OBJECTIVES[name](*inputs(name, z1, z2.index_fill(0, torch.tensor(4), torch.nan)))


@pytest.mark.parametrize(
    ("name", "hyperparameter"),
    [
        (name, key)
        for name in OBJECTIVES
        for key in keywords("objectives", name)
        if key in ("temperature", "alpha", "t", "mu")
    ],
)
@pytest.mark.parametrize("value", [0.0, -0.5, float("nan"), float("inf")])
def test_scales_must_be_above_zero_and_finite(name, hyperparameter, value):
    with pytest.raises(ValueError, match=f"^{hyperparameter} must be above 0 and finite; got {value:g}"):
        OBJECTIVES[name](*inputs(name, *batch()), **{hyperparameter: value})


@pytest.mark.parametrize(("name", "hyperparameter"), [("triplet", "margin"), ("barlow_twins", "off_diagonal")])
@pytest.mark.parametrize("value", [-1.0, float("inf")])
def test_margins_and_weights_must_not_be_negative_or_infinite(name, hyperparameter, value):
    with pytest.raises(ValueError, match=f"^{hyperparameter} must be at least 0 and finite; got {value:g}"):
        OBJECTIVES[name](*batch(), **{hyperparameter: value})


def test_labels_must_be_one_whole_number_per_sample(unchecked):
    for labels in (torch.arange(15), torch.ones(16)):
        with pytest.raises(ValueError, match="labels must be 16 whole numbers"):
            OBJECTIVES["supervised"](*batch(), labels)


def test_negatives_must_have_the_width_of_the_queries(unchecked):
    with pytest.raises(ValueError, match=r"negatives must have 8 columns.*got shape \(4, 5\)"):
        OBJECTIVES["info_nce"](*batch(), negatives=torch.ones(4, 5).double())


def test_the_glossary_says_what_every_hyperparameter_means():
    known = {key for name in OBJECTIVES for key in keywords("objectives", name)}
    assert known - set(FROM_LEARNER) == set(GLOSSARY)


def test_random_directions_are_on_the_sphere():
    """The batches above are not degenerate: random views are neither equal nor orthogonal."""
    z1, z2 = (normalize(z) for z in batch())
    assert 0.2 < (z1 * z2).sum(1).mean() < 0.95

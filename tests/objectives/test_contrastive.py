"""Contrastive objectives: closed forms, identities between them, and mistakes that public code has made."""

import math

import pytest
import torch
from torch.nn.functional import cross_entropy, normalize

from vergence.objectives import (
    alignment,
    decoupled,
    flat_nce,
    info_nce,
    linear_contrastive,
    nt_xent,
    revised_info_nce,
    supervised,
    triplet,
    two_modal,
)


def pair(n=8, d=5, noise=0.5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    z, other = torch.randn(2, n, d, dtype=torch.float64, generator=generator)
    return z.requires_grad_(), (z.detach() + noise * other).requires_grad_()


def test_nt_xent_of_a_collapsed_batch_is_log_of_the_candidates():
    z = torch.ones(8, 5)
    torch.testing.assert_close(nt_xent(z, z), torch.tensor(math.log(2 * 8 - 1)))


def test_decoupled_of_a_collapsed_batch_is_log_of_the_negatives():
    z = torch.ones(8, 5)
    torch.testing.assert_close(decoupled(z, z), torch.tensor(math.log(2 * 8 - 2)))


def test_info_nce_of_orthogonal_pairs_is_log_of_one_plus_the_rest():
    z = torch.eye(6, dtype=torch.float64)
    expected = math.log(1 + 5 * math.exp(-1 / 0.2))
    torch.testing.assert_close(info_nce(z, z, temperature=0.2).item(), expected)


def test_info_nce_is_the_cross_entropy_of_the_scores():
    query, key = pair()
    scores = normalize(query, dim=1) @ normalize(key, dim=1).T / 0.1
    torch.testing.assert_close(info_nce(query, key), cross_entropy(scores, torch.arange(8)))


def test_explicit_negatives_replace_the_other_keys():
    query, key = pair()
    negatives = torch.randn(20, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    u, v, w = (normalize(z, dim=1) for z in (query, key, negatives))
    scores = torch.cat([(u * v).sum(1, keepdim=True), u @ w.T], 1) / 0.1
    expected = cross_entropy(scores, torch.zeros(8, dtype=torch.int64))
    ours = info_nce(query, key, negatives=negatives)
    torch.testing.assert_close(ours, expected)
    torch.testing.assert_close(gradient(ours, query), gradient(expected, query))


def test_one_explicit_negative_is_enough():
    z = torch.ones(4, 3, dtype=torch.float64)
    torch.testing.assert_close(info_nce(z, z, negatives=z[:1]).item(), math.log(2))


def test_nt_xent_is_never_below_decoupled_nor_below_zero():
    z1, z2 = pair()
    assert nt_xent(z1, z2, temperature=0.1) > torch.relu(decoupled(z1, z2, temperature=0.1))


def test_flat_nce_has_the_decoupled_gradient_and_the_value_one():
    z1, z2 = pair()
    loss = flat_nce(z1, z2)
    assert loss == 1
    torch.testing.assert_close(gradient(loss, z1), gradient(decoupled(z1, z2), z1))


def test_the_positive_is_not_in_the_denominator_of_flat_nce():
    """With it inside, as in two public codes, the gradient would be InfoNCE's, which fades once the positive wins."""
    z1, z2 = torch.eye(8, dtype=torch.float64).requires_grad_(), torch.eye(8, dtype=torch.float64)
    flat, info = (gradient(f(z1, z2, temperature=0.05), z1).norm() for f in (flat_nce, nt_xent))
    torch.testing.assert_close((info / flat).item(), 1 - 1 / (1 + 14 * math.exp(-20)))


def test_revised_info_nce_is_decoupled_in_other_units():
    z1, z2 = pair()
    torch.testing.assert_close(revised_info_nce(z1, z2), 2 + 2 * 0.2 * decoupled(z1, z2, temperature=0.2))


def test_revised_info_nce_weighs_only_the_negatives():
    z1, z2 = pair()
    torch.testing.assert_close(revised_info_nce(z1, z2, weight=0.0), alignment(z1, z2))


def test_linear_contrastive_is_the_limit_at_high_temperature():
    z1, z2 = pair()
    temperature = 1e5
    limit = temperature * (decoupled(z1, z2, temperature=temperature) - math.log(2 * 8 - 2))
    torch.testing.assert_close(linear_contrastive(z1, z2), limit, rtol=1e-4, atol=1e-4)


def test_two_modal_is_info_nce_both_ways():
    z1, z2 = pair()
    both = (info_nce(z1, z2, temperature=0.07) + info_nce(z2, z1, temperature=0.07)) / 2
    torch.testing.assert_close(two_modal(z1, z2), both)


def test_supervised_with_all_labels_different_is_nt_xent():
    z1, z2 = pair()
    torch.testing.assert_close(supervised(z1, z2, torch.arange(8) * 3), nt_xent(z1, z2, temperature=0.1))


def test_supervised_averages_the_log_probabilities_of_all_positives():
    z1, z2 = pair()
    labels = torch.tensor([0, 1, 0, 2, 2, 0, 1, 5])
    u, both = normalize(torch.cat([z1, z2]), dim=1), labels.repeat(2)
    scores = (u @ u.T / 0.1).fill_diagonal_(-torch.inf)
    positives = (both[:, None] == both).fill_diagonal_(False)
    expected = -torch.stack([row[p].mean() for row, p in zip(scores.log_softmax(1), positives, strict=True)]).mean()
    torch.testing.assert_close(supervised(z1, z2, labels), expected)


@pytest.mark.parametrize("objective", [nt_xent, decoupled, supervised, triplet, linear_contrastive, two_modal])
def test_the_two_views_may_be_swapped(objective):
    z1, z2 = pair()
    extra = (torch.arange(8) % 3,) if objective is supervised else ()
    torch.testing.assert_close(objective(z1, z2, *extra), objective(z2, z1, *extra))


def triplet_by_loops(z1, z2, margin, mining):
    u = normalize(torch.cat([z1, z2]), dim=1)
    n, losses = len(z1), []
    for i in range(2 * n):
        distance = (u[i] - u).square().sum(1)
        positive = distance[(i + n) % (2 * n)]
        negatives = distance[[j for j in range(2 * n) if j % n != i % n]]
        farther = negatives[negatives > positive]
        chosen = negatives.min() if mining == "hard" else farther.min() if len(farther) else negatives.max()
        losses.append(torch.relu(positive - chosen + margin))
    return torch.stack(losses).mean()


@pytest.mark.parametrize("mining", ["hard", "semi_hard"])
@pytest.mark.parametrize("noise", [0.2, 5.0])
def test_triplet_mines_as_defined(mining, noise):
    z1, z2 = pair(n=12, d=3, noise=noise)
    ours, loops = triplet(z1, z2, mining=mining), triplet_by_loops(z1, z2, 0.5, mining)
    torch.testing.assert_close(ours, loops)
    torch.testing.assert_close(gradient(ours, z1), gradient(loops, z1))


def test_triplet_of_a_collapsed_batch_is_the_margin():
    z = torch.ones(4, 3)
    assert triplet(z, z, margin=0.7).item() == pytest.approx(0.7)


def test_an_unknown_mining_is_named():
    with pytest.raises(ValueError, match=r"Unknown mining 'easy'. Known: hard, semi_hard"):
        triplet(*pair(), mining="easy")


def gradient(loss, z):
    return torch.autograd.grad(loss, z, retain_graph=True)[0]

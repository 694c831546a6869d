"""t-SNE of all pairs: the gradient of its divergence, neighborhoods of the wanted width, and the neighbors it keeps."""

import numpy as np
import pytest
import torch

from vergence.report.embedding import preserved_neighbors
from vergence.report.projection import neighbor_map, tsne
from vergence.report.tsne import divergence_slope, neighborhoods


def rows(n=300, d=12, seed=0):
    generator = np.random.default_rng(seed)
    centers = 3 * generator.normal(size=(6, d))
    return (centers[generator.integers(0, 6, n)] + generator.normal(size=(n, d))).astype(np.float32)


def divergence(shares, y, exaggeration):
    """The sum of p log(p / q), with p exaggerated where it multiplies the logarithm of the closeness."""
    apart = (y[:, None] - y[None]).square().sum(dim=2)
    near = (1 / (1 + apart)) * (1 - torch.eye(len(y), dtype=y.dtype))
    logs = torch.log(near + torch.eye(len(y), dtype=y.dtype))
    return -exaggeration * (shares * logs).sum() + torch.log(near.sum())


@pytest.mark.parametrize("exaggeration", [1.0, 12.0])
def test_the_gradient_is_that_of_the_divergence(exaggeration):
    x = rows(n=290)  # more than two blocks, the last one not full
    shares = neighborhoods(x, 15.0)
    y = np.random.default_rng(1).normal(size=(290, 2)).astype(np.float32)
    points = torch.from_numpy(y).double().requires_grad_()
    (true,) = torch.autograd.grad(divergence(torch.from_numpy(shares).double(), points, exaggeration), points)
    np.testing.assert_allclose(divergence_slope(shares, y, exaggeration=exaggeration), true, atol=1e-6, rtol=1e-3)


def test_every_row_has_as_many_neighbors_as_the_perplexity_says():
    x = rows()
    shares = neighborhoods(x, 15.0).astype(np.float64)
    assert shares.sum() == pytest.approx(1, abs=1e-5)
    np.testing.assert_array_equal(shares, shares.T)
    grid = np.stack([np.cos(a := np.linspace(0, 2 * np.pi, 200, endpoint=False)), np.sin(a)], 1).astype(np.float32)
    own = 200 * neighborhoods(grid, 15.0).astype(np.float64)  # on a circle all rows are alike, and so symmetric already
    entropy = -(own * np.log(own.clip(1e-300))).sum(axis=1)
    np.testing.assert_allclose(np.exp(entropy), 15, rtol=0.02)


def test_rows_that_coincide_have_finite_neighborhoods():
    assert np.isfinite(neighborhoods(np.repeat(rows(n=3), 40, axis=0), 20.0)).all()


@pytest.mark.parametrize("from_a_map", [True, False])
def test_it_keeps_about_as_many_neighbors_as_scikit_learns(from_a_map):
    from sklearn.manifold import TSNE

    x = rows(n=600, d=30)
    theirs = TSNE(random_state=0, perplexity=20.0 if from_a_map else 30.0).fit_transform(x)
    ours = tsne(x, start=neighbor_map(x)) if from_a_map else tsne(x)
    kept = [preserved_neighbors(x, points, neighbors=15) for points in (ours, theirs)]
    assert kept[0] > 0.95 * kept[1]

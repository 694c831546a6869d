"""Stability, divergence and the bound on the error: facts beside claims 21-37, on pipelines where all is exact."""

import json
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import normalize

from vergence.theory import (
    augmented_distance,
    chance_error,
    concentration,
    cross_correlation_alignment,
    cross_correlation_divergence,
    cross_correlation_error,
    cross_correlation_parts,
    derived_remainder,
    divergence_threshold,
    eta,
    eta_squared,
    expected_alignment,
    generalization_bound,
    info_nce_divergence,
    info_nce_error,
    info_nce_parts,
    lipschitz_estimate,
    measured_remainder,
    nearest_center_error,
    rho,
    separation,
    standardized,
    unstable_share,
    view_spread,
)

DOUBLE = torch.float64


def pipeline(seed=0, *, classes=3, per_class=6, views=3, d=4, scale=0.05):
    """Classes around random centers; samples and then views scattered by ``scale``; the sample itself first."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(classes * per_class) % classes
    centers = normalize(torch.randn(classes, d, dtype=DOUBLE, generator=generator), dim=1)
    samples = centers[labels] + scale * torch.randn(len(labels), d, dtype=DOUBLE, generator=generator)
    noise = torch.randn(len(labels), views, d, dtype=DOUBLE, generator=generator)
    noise[:, 0] = 0
    return normalize(samples[:, None] + scale * noise, dim=2), labels


def planted(scale=0.01, *, classes=3):
    """Classes at the corners of a simplex: as far apart as they can be."""
    corners = torch.eye(classes, dtype=DOUBLE)
    noise = pipeline(classes=classes, d=classes, views=4)[0] - 0.5
    labels = torch.arange(len(noise)) % classes
    return normalize((corners - 1 / classes)[labels][:, None] + scale * noise, dim=2), labels


def violations(seed, scale):
    """What fails of the theorems on a random pipeline, for a random choice of delta and epsilon."""
    shape = {"classes": 2 + seed % 3, "per_class": 3 + seed % 4, "d": 2 + seed % 3}
    features, labels = pipeline(seed, scale=scale, **shape)
    delta, epsilon = scale * (1 + seed % 5), None if seed % 2 else scale * (2 + seed % 6)
    certificates = [
        generalization_bound(features, labels, delta=delta, epsilon=epsilon),
        generalization_bound(features, labels, delta=delta, epsilon=epsilon, rho="measured"),
        separation(features, labels, augmented_distance(features), delta, epsilon or delta),
        info_nce_divergence(features, labels, form="simple"),
        info_nce_divergence(features, labels, form="sharper"),
        cross_correlation_alignment(features),
        cross_correlation_divergence(features, labels),
    ]
    return [certificate.statement for certificate in certificates if not certificate.holds]


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 10**9), scale=st.floats(1e-3, 1.0))
def test_the_theorems_hold_on_random_pipelines(seed, scale):
    assert not violations(seed, scale)


@pytest.mark.slow
@settings(max_examples=10_000, deadline=None)
@given(seed=st.integers(0, 10**9), scale=st.floats(1e-3, 1.0))
def test_the_theorems_hold_on_ten_thousand_pipelines(seed, scale):
    assert not violations(seed, scale)


def test_a_planted_pipeline_gets_an_informative_certificate():
    certificate = generalization_bound(*planted())
    assert certificate.verdict == "informative"
    assert certificate.right == certificate.left == 0
    assert certificate.assumptions["the encoder's Lipschitz constant"] == "measured"


def test_noise_makes_the_certificate_vacuous_and_not_wrong():
    certificate = generalization_bound(*planted(scale=1.0))
    assert certificate.verdict == "vacuous"
    assert certificate.right == 1


def test_the_chosen_epsilon_and_delta_are_the_best():
    features, labels = planted(scale=0.03)
    features[0, 1] *= -1  # one unstable sample: R trades against epsilon
    best = generalization_bound(features, labels)
    assert best.verdict == "informative"
    for delta in (0.02, 0.1, 0.5):
        for epsilon in (0.01, 0.05, 0.1, 1.0, 2.0):
            assert best.right <= generalization_bound(features, labels, delta=delta, epsilon=epsilon).right
    assert best.right == min(best.curves["bound"])


def test_a_known_sigma_gives_the_bound_of_the_measured_one():
    features, labels = planted()
    found = concentration(augmented_distance(features), labels, 0.1)
    measured = generalization_bound(features, labels, delta=0.1)
    known = generalization_bound(features, labels, sigma=found.sigma, delta=0.1)
    assert (known.left, known.right) == (measured.left, measured.right)
    assert known.assumptions["sigma"] == "assumed"


def test_distances_among_inputs_need_the_lipschitz_constant():
    features, labels = planted()
    inputs = 10 * features  # the encoder divides by ten
    own = generalization_bound(features, labels, delta=0.1)
    given = generalization_bound(features, labels, distance=augmented_distance(inputs), delta=1.0, lipschitz=0.1)
    assert given.terms["rho"] == pytest.approx(own.terms["rho"])
    assert given.assumptions["the encoder's Lipschitz constant"] == "estimated from below"


def test_the_bound_ignores_scale_and_rotation():
    features, labels = planted(scale=0.04)
    turn = torch.linalg.qr(torch.randn(3, 3, dtype=DOUBLE, generator=torch.Generator().manual_seed(0)))[0]
    plain, turned = generalization_bound(features, labels), generalization_bound(7 * features @ turn, labels + 5)
    assert turned.right == pytest.approx(plain.right)
    assert turned.terms["rho"] == pytest.approx(plain.terms["rho"])


def test_a_larger_radius_needs_a_larger_delta_and_gives_the_same_bound():
    features, labels = planted(scale=0.04)
    small = generalization_bound(features, labels, delta=0.2)
    large = generalization_bound(features, labels, delta=0.2 * math.sqrt(3), radius=math.sqrt(3))
    assert large.terms["rho"] == pytest.approx(small.terms["rho"])


def test_a_certificate_with_its_curves_becomes_json():
    assert json.loads(json.dumps(generalization_bound(*planted()).to_dict()))["verdict"] == "informative"


def test_the_forms_of_rho_agree_without_unstable_samples():
    values = [rho(0.8, 0.1, 0.05, 0.0, 0.5, form=form).item() for form in ("corrected", "published", "arxiv")]
    assert values == pytest.approx([2 * 0.2 + 0.8 * 0.2] * 3)


@settings(deadline=None)
@given(sigma=st.floats(0, 1), a=st.floats(0, 5), unstable=st.floats(0, 1), share=st.floats(0.05, 1))
def test_the_corrected_rho_lies_between_nothing_and_opposite(sigma, a, unstable, share):
    assert 0 <= rho(sigma, a, 0.0, unstable, share).item() <= 2 + 1e-12


def test_where_the_threshold_leaves_the_sphere():
    assert divergence_threshold(3 - math.sqrt(5), 0.0).item() == pytest.approx(-1)
    assert divergence_threshold(2 - math.sqrt(3), 0.0).item() == pytest.approx(0)
    assert divergence_threshold(0.0, 0.4).item() == pytest.approx(0.8)


def test_separation_is_silent_when_a_main_sample_is_misclassified():
    features, labels = planted()
    swapped = labels.clone()
    swapped[:2] = labels[:2].flip(0)
    certificate = separation(features, swapped, torch.zeros(18, 18, dtype=DOUBLE), 0.1, 2.0)
    assert certificate.terms["mistaken"] > 0
    assert certificate.right == 1


def test_spread_and_unstable_share_of_two_samples():
    features = torch.tensor([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [1.0, 0.0]]], dtype=DOUBLE)
    assert view_spread(features).tolist() == pytest.approx([math.sqrt(2), 0])
    assert [unstable_share(features, epsilon) for epsilon in (0.0, 1.4, 1.5)] == [0.5, 0.5, 0]
    assert expected_alignment(features) == pytest.approx(0.5)


@pytest.mark.parametrize("function", [eta, eta_squared])
@settings(deadline=None)
@given(epsilon=st.floats(0.01, 10), continuous=st.integers(0, 4), discrete=st.integers(1, 20))
def test_cubes_that_tile_cost_something_and_larger_epsilon_helps(function, epsilon, continuous, discrete):
    rates = {"lipschitz": 1.0, "smoothness": 1.0, "discrete": discrete, "continuous": continuous}
    published, corrected = (function(epsilon, form=form, **rates) for form in ("published", "corrected"))
    assert published <= corrected * (1 + 1e-9)
    assert function(2 * epsilon, **rates) <= corrected


def test_without_continuous_parameters_eta_is_plain():
    assert eta(0.5, lipschitz=9.0, smoothness=9.0, discrete=3, continuous=0) == 4 * 9 / 0.5
    assert eta_squared(0.5, lipschitz=9.0, smoothness=9.0, discrete=3, continuous=0) == 4 * 9 / 0.25


def test_the_lipschitz_estimate_of_a_linear_map_is_below_its_norm():
    inputs = torch.randn(50, 3, 4, dtype=DOUBLE, generator=torch.Generator().manual_seed(0))
    stretch = torch.diag(torch.tensor([3.0, 1.0, 0.5, 0.1], dtype=DOUBLE))
    assert 2.5 < lipschitz_estimate(inputs, inputs @ stretch, pairs=20_000) <= 3.0


def test_errors_through_the_losses_follow_their_formulae():
    features, labels = planted()
    bound, first = generalization_bound(features, labels), info_nce_parts(features).first
    factor = 1e-3
    error = info_nce_error(bound, first, eta=factor)
    assert error.right == pytest.approx(factor * math.sqrt(expected_alignment(features)))
    first = cross_correlation_parts(features).first
    error = cross_correlation_error(bound, first, eta=factor, dimension=3)
    assert error.right == pytest.approx(math.sqrt(2) * factor * 3**0.25 * first**0.25)


def test_errors_through_the_losses_are_silent_where_the_bound_is():
    bound = generalization_bound(*planted(scale=1.0))
    assert info_nce_error(bound, -1.0, eta=0.0).right == 1


def test_standardized_features_have_mean_nought_and_square_one():
    scaled = standardized(pipeline()[0])
    torch.testing.assert_close(scaled.mean((0, 1)), torch.zeros(4, dtype=DOUBLE))
    torch.testing.assert_close(scaled.square().mean((0, 1)), torch.ones(4, dtype=DOUBLE))


def test_the_sharper_divergence_is_informative_when_alignment_is_perfect():
    features = torch.tensor([[[1.0, 0.0]] * 2, [[-1.0, 0.0]] * 2], dtype=DOUBLE).repeat(4, 1, 1)
    certificate = info_nce_divergence(features, torch.tensor([0, 1] * 4))
    assert certificate.left == -1
    assert certificate.verdict == "informative"


def test_perfect_concentration_leaves_no_remainder():
    shares = torch.tensor([0.5, 0.5], dtype=DOUBLE)
    rates = {"delta": 0.0, "epsilon": 0.0, "unstable": 0.0, "dimension": 4}
    assert derived_remainder(shares, sigma=1.0, **rates) == 0
    assert derived_remainder(shares, sigma=0.0, **rates) == (2 * 4) ** 2
    features = torch.eye(2, dtype=DOUBLE)[[0, 1, 0, 1]][:, None].repeat(1, 2, 1)
    assert measured_remainder(features, torch.tensor([0, 1, 0, 1])) == pytest.approx(0)


def test_a_dead_dimension_is_no_accident():
    features, labels = pipeline()
    features[..., 0] = 0.3
    assert cross_correlation_alignment(features).holds
    assert cross_correlation_divergence(features, labels).holds


def test_chance_names_the_largest_class():
    assert chance_error(torch.tensor([0, 0, 0, 1])) == 0.25
    features, _ = planted()
    assert nearest_center_error(features, torch.arange(18) % 3) == 0


FEATURES, LABELS = planted()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"labels": LABELS[:5]}, "one label a sample"),
        ({"labels": torch.zeros(18, dtype=torch.long)}, "at least 2"),
        ({"features": FEATURES.masked_fill(FEATURES > 0.5, math.nan)}, "NaN"),
        ({"features": 0 * FEATURES}, "no direction"),
        ({"features": FEATURES[0]}, "samples, views, d"),
        ({"sigma": 0.9, "delta": 0.1, "rho": "measured"}, "main parts"),
        ({"sigma": 0.9}, "one delta"),
        ({"sigma": 1.5, "delta": 0.1}, r"sigma in \[0, 1\]"),
        ({"epsilon": -0.1}, "epsilon"),
        ({"delta": 0.0}, "above 0"),
        ({"distance": torch.ones(18, 18, dtype=DOUBLE).triu()}, "not symmetric"),
        ({"labels": torch.tensor([0] * 17 + [1])}, "at least 2 samples"),
        ({"rho": "best"}, "Unknown form of rho 'best'"),
    ],
)
def test_bad_input_is_refused_in_words(changes, words, unchecked):
    given = {"features": FEATURES, "labels": LABELS, **changes}
    with pytest.raises(ValueError, match=words):
        generalization_bound(given.pop("features"), given.pop("labels"), **given)


def test_epsilon_beyond_the_theorem_is_refused():
    with pytest.raises(ValueError, match=r"1\.4587"):
        info_nce_divergence(FEATURES, LABELS, epsilon=1.5)

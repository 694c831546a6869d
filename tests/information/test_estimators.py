"""Facts about estimates: within their tolerance where the answer is known, and honest where it cannot be."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import norm

from vergence.information import BOUNDS, ESTIMATORS, Information, estimate, usable_information, wasserstein_dependency
from vergence.information.answers import answer
from vergence.information.bounds import donsker_varadhan
from vergence.information.copula import copula_information, looks_gaussian
from vergence.information.critics import Separable
from vergence.information.crossfit import fit, judged, splits, two_way
from vergence.information.exact import correlation_for, gaussian_log_ratio
from vergence.information.neighbors import ksg
from vergence.information.preprocessing import described, gaussianized
from vergence.information.samplers import (
    Pairs,
    correlated_gaussians,
    cubed_gaussians,
    discrete_channel,
    labeled_mixture,
    spiral,
    student,
    uniform_noise,
)


def numbers(n: int, d: int = 1, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d))


@pytest.fixture
def few_steps(monkeypatch):
    """Critics that barely learn, where only what is done with them matters."""
    monkeypatch.setattr("vergence.information.trained.LEAST_STEPS", 0)


def with_the_true_critic(pairs: Pairs, bound: str, *, batch: int) -> Information:
    """A bound that needs no training: its critic is the log density ratio, plus one where that is tight."""
    d = pairs.x.shape[1]
    rho, level = correlation_for(pairs.nats, d=d), 1.0 if bound in ("nwj", "interpolated") else 0.0
    critic = lambda x, y: level + gaussian_log_ratio(x, y, correlation=rho)
    return estimate(pairs.x, pairs.y, bound=bound, critic=critic, batch=batch)


# --- the choice ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pairs", "estimator", "tolerance"),
    [
        (uniform_noise(4000, width=0.1), "neighbors", 0.05),
        (uniform_noise(4000, width=0.75), "neighbors", 0.05),
        (correlated_gaussians(2000, nats=0.5), "neighbors", 0.06),
        (correlated_gaussians(3000, d=20, nats=8.0), "copula", 0.4),
        (cubed_gaussians(3000, d=20, nats=20.0), "copula", 0.5),
        (labeled_mixture(3000), "neighbors", 0.05),
        (discrete_channel(3000, torch.tensor([[0.4, 0.1], [0.1, 0.4]])), "table", 0.05),
    ],
    ids=["hard edges", "wide noise", "line", "eight nats", "twenty nats, cubed", "label", "table"],
)
def test_auto_chooses_what_suits_and_is_near_the_truth(pairs, estimator, tolerance):
    found = estimate(pairs.x, pairs.y)
    assert found.estimator == estimator
    assert found.nats == pytest.approx(pairs.nats, abs=tolerance)
    assert found.reasons


def test_a_critic_finds_what_correlation_cannot():
    pairs = student(1200, dx=2, dy=2, degrees=1)
    found = estimate(pairs.x, pairs.y, folds=2)
    assert found.estimator == "neural"
    assert found.interval[0] <= pairs.nats <= found.interval[1]
    assert copula_information(pairs.x.numpy(), pairs.y.numpy())[0] < 0.05 < found.interval[0]


def test_numpy_and_torch_give_the_same_answer_in_any_order_of_calls():
    pairs = correlated_gaussians(500, d=2, nats=0.5)
    first = estimate(pairs.x, pairs.y, bound="neural")
    torch.manual_seed(123)
    assert estimate(pairs.x.numpy(), pairs.y.numpy(), bound="neural") == first


def test_an_estimate_leaves_the_random_state_of_its_caller_alone():
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    estimate(numbers(200, 2), numbers(200, 2, seed=1), bound="neural")
    torch.testing.assert_close(torch.rand(3), expected)


# --- honesty ------------------------------------------------------------------------------------------------------


def test_independent_variables_in_many_dimensions_share_nothing_on_unseen_pairs():
    found = estimate(numbers(600, 15), numbers(600, 15, seed=1))
    assert found.interval[0] <= 0.05
    assert found.nats < 0.15


def test_what_the_critic_saw_looks_better_than_what_it_did_not():
    x, y = torch.randn(2, 300, 20, generator=torch.Generator().manual_seed(0))
    critic, split = Separable(20, 20), next(splits(300))
    score = lambda rows: critic(x[rows], y[rows])
    fit(critic, score, split, patience=30)
    stopped = two_way(score(split.stop))
    assert two_way(score(split.train[:50])) > stopped


def test_the_best_weights_are_kept_and_not_the_last():
    x, y = torch.randn(2, 300, 20, generator=torch.Generator().manual_seed(0))
    critic, split = Separable(20, 20), next(splits(300))
    score = lambda rows: critic(x[rows], y[rows])
    before = two_way(score(split.stop)).item()
    fit(critic, score, split, patience=30)
    assert two_way(score(split.stop)).item() >= before


def test_every_pair_is_unseen_exactly_once_and_never_in_two_parts_of_a_fold():
    folds = list(splits(100, folds=3))
    assert sorted(torch.cat([fold.test for fold in folds]).tolist()) == list(range(100))
    for fold in folds:
        assert sorted(torch.cat(fold).tolist()) == list(range(100))


def test_the_bound_on_unseen_pairs_of_the_true_critic_is_the_information():
    pairs = correlated_gaussians(3000, nats=0.5, seed=4)
    rho = correlation_for(0.5)
    split = next(splits(3000))
    part = judged(lambda rows: gaussian_log_ratio(pairs.x[rows], pairs.y[rows], correlation=rho), split)
    error = part.influence.std() / math.sqrt(len(split.test))
    assert abs(part.unseen - 0.5) < 4 * error


@pytest.mark.parametrize(("bound", "d"), [("copula", 3), ("neighbors", 1)])
def test_intervals_cover_the_truth_about_as_often_as_they_claim(bound, d):
    draws = [correlated_gaussians(400, d=d, nats=0.5, seed=seed) for seed in range(60)]
    ends = [estimate(pairs.x, pairs.y, bound=bound).interval for pairs in draws]
    assert sum(low <= 0.5 <= high for low, high in ends) >= 48  # of 54 expected; fewer has probability 0.01
    assert sum(low <= 0.5 for low, _ in ends) >= 53  # of 57 expected


@pytest.mark.parametrize("bound", sorted(set(BOUNDS) - {"jensen_shannon"}))
@pytest.mark.parametrize("d", [20, 128])
@pytest.mark.parametrize("nats", [1.0, 2.0, 4.0, 6.0, 8.0, 12.0, 16.0, 20.0])
def test_every_bound_is_saturated_above_its_ceiling_and_where_it_is_wrong_and_not_well_under(bound, d, nats):
    found = with_the_true_critic(correlated_gaussians(600, d=d, nats=nats, seed=3), bound, batch=64)
    assert found.ceiling == pytest.approx(math.log(64 if bound in ("info_nce", "leave_one_out") else 600))
    if nats > found.ceiling or abs(found.nats - nats) > 0.5:
        assert found.saturated
        assert found.trust.word == "low"
    if nats < found.ceiling - 1.5:
        assert not found.saturated


def test_saturated_lower_bounds_are_read_as_at_least_and_others_as_off_either_way():
    pairs = correlated_gaussians(300, d=20, nats=12.0)
    assert "read this as at least" in with_the_true_critic(pairs, "info_nce", batch=64).trust.sentence
    for bound in ("leave_one_out", "donsker_varadhan", "smile", "nwj"):
        assert "either way" in with_the_true_critic(pairs, bound, batch=64).trust.sentence


def test_donsker_varadhan_is_not_averaged_over_batches():
    pairs = correlated_gaussians(300, d=5, nats=4.0)
    small, large = (with_the_true_critic(pairs, "donsker_varadhan", batch=batch) for batch in (8, 100))
    assert small == large
    rho = correlation_for(4.0, d=5)
    scores = gaussian_log_ratio(pairs.x, pairs.y, correlation=rho)
    averaged = np.mean([donsker_varadhan(scores[i : i + 4, i : i + 4]) for i in range(0, 300, 4)])
    assert averaged > 4.5 > small.nats  # what averaging over small batches would have said


def test_resampled_pairs_would_flatter_neighbors_so_intervals_are_not_bootstrapped():
    pairs = correlated_gaussians(600, nats=0.3, seed=1)
    found = estimate(pairs.x, pairs.y, bound="neighbors")
    rows = np.random.default_rng(0).integers(0, 600, 600)
    assert found.interval[0] <= 0.3 <= found.interval[1] < ksg(pairs.x.numpy()[rows], pairs.y.numpy()[rows], k=3)


def test_a_ceiling_is_not_reported_as_an_answer(few_steps):
    pairs = correlated_gaussians(400, d=20, nats=15.0)
    found = estimate(pairs.x, pairs.y, bound="info_nce", critic="bilinear", batch=64, folds=2)
    assert found.nats <= found.ceiling == pytest.approx(math.log(64))
    assert found.trust.word == "low"
    assert found.samples_needed > math.exp(found.nats)


def test_lower_bounds_of_a_trained_critic_stay_below_the_truth():
    pairs = correlated_gaussians(400, d=2, nats=1.0)
    for bound in ("info_nce", "nwj"):
        found = estimate(pairs.x, pairs.y, bound=bound, batch=64, folds=2)
        assert found.nats > 0.7  # few pairs must not mean few steps
        assert found.interval[0] <= 1.0


def test_a_module_of_the_user_is_left_as_it_came(few_steps):
    pairs = correlated_gaussians(300, d=2, nats=1.0)
    critic = Separable(2, 2)
    before = [p.clone() for p in critic.parameters()]
    estimate(pairs.x, pairs.y, critic=critic, batch=64, folds=2)
    for old, new in zip(before, critic.parameters(), strict=True):
        torch.testing.assert_close(old, new)


# --- what cannot be estimated -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "relation",
    [lambda x: x**3, lambda x: np.sin(3 * x), lambda x: x[:, :1] + x[:, -1:]],
    ids=["cube", "sine", "sum"],
)
@pytest.mark.parametrize("d", [1, 2])
def test_a_function_of_x_shares_infinitely_much_with_it(relation, d):
    x = numbers(1500, d)
    found = estimate(x, relation(x))
    assert found.nats == math.inf
    assert found.trust == "low"
    assert found.saturated


def test_noise_makes_it_finite_again():
    x = numbers(1500)
    found = estimate(x, x**3 + 0.5 * numbers(1500, seed=1))
    assert math.isfinite(found.nats)


@pytest.mark.parametrize(("n", "d", "nats"), [(2000, 2, 6.0), (1000, 3, 5.0), (4000, 1, 5.0)])
def test_much_information_that_is_finite_is_not_called_infinite(n, d, nats):
    """A Gaussian pair whose sign is lost knows the sign's entropy less, and neighbors of so few pairs still grow."""
    pairs = correlated_gaussians(n, d=d, nats=nats)
    sign = torch.from_numpy(np.random.default_rng(2).choice([-1.0, 1.0], size=(n, 1)))
    found = estimate(pairs.x, sign * pairs.y)
    assert nats - 1.5 < found.nats < nats
    assert found.interval[0] < nats - math.log(2) < found.interval[1]


def test_constant_columns_are_left_out_and_a_constant_variable_shares_nothing():
    pairs = correlated_gaussians(500, nats=0.5)
    padded = torch.cat([pairs.x, torch.ones_like(pairs.x)], dim=1)
    with_constant = estimate(padded, pairs.y)
    assert with_constant.nats == estimate(pairs.x, pairs.y).nats
    assert "1 constant columns of x were left out." in with_constant.reasons
    assert estimate(torch.ones(100, 2), pairs.y[:100]).nats == 0


def test_repeated_rows_are_said_and_counted_with_ties():
    pairs = correlated_gaussians(800, nats=0.7)
    rounded = (pairs.x * 4).round(), (pairs.y * 4).round()
    found = estimate(*rounded)
    assert any(word in reason for reason in found.reasons for word in ("repeat", "categories", "Ties"))
    assert found.nats == pytest.approx(0.7, abs=0.15)


def test_a_label_is_found_in_many_columns():
    labels = np.random.default_rng(0).integers(0, 4, 800)
    x = numbers(800, 20) + 6 * np.eye(4, 20)[labels]
    assert 0.7 < estimate(x, labels).nats < math.log(4) + 0.05


def test_words_are_categories():
    words = np.array(["cat", "dog"])[np.random.default_rng(0).integers(0, 2, 400)]
    found = estimate(words, words)
    assert found.nats == pytest.approx(math.log(2), abs=0.01)
    assert found.trust.word == "high"  # all that there is to know is not a ceiling of the estimator


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (numbers(100), numbers(90), "x has 100 rows and y has 90: row i of both must belong together"),
        (numbers(10), numbers(10), "10 pairs are too few to estimate information; at least 50"),
        (numbers(1), numbers(1), "1 pairs are too few"),
        (
            np.where(np.arange(60) == 7, np.nan, 1.0),
            numbers(60),
            "1 rows with NaN or infinity, the first at row 7",
        ),
        (np.float64(3), numbers(60), "x must have one row per sample"),
    ],
)
def test_bad_samples_are_explained(x, y, message, unchecked):
    with pytest.raises(ValueError, match=message):
        estimate(x, y)


def test_bad_choices_are_explained():
    x = numbers(100)
    with pytest.raises(ValueError, match=r"Unknown bound 'infonce'. Known: .* Did you mean 'info_nce'"):
        estimate(x, x, bound="infonce")
    with pytest.raises(ValueError, match="A batch of 256 does not fit in a fold of 33 pairs"):
        estimate(x, x, bound="nwj")
    with pytest.raises(ValueError, match="jensen_shannon trains a critic but is not in nats"):
        estimate(x, x, bound="jensen_shannon")


def test_thousands_of_dimensions_are_reduced_and_that_is_said():
    found = estimate(numbers(100, 1000), numbers(100, 1000, seed=1))
    assert any("x was reduced from 1000 columns to 5 principal components" in reason for reason in found.reasons)
    assert found.interval[0] <= 0


# --- answers ----------------------------------------------------------------------------------------------------------


def test_bits_are_nats_over_log_two_and_the_dictionary_holds_everything():
    found = answer(math.log(8), (1.8, 2.4), ceiling=9.0, estimator="copula", n=100)
    assert found.bits == pytest.approx(3)
    assert found.trust.word == "moderate"
    assert {"nats", "bits", "interval", "ceiling", "saturated", "trust", "samples_needed", "reasons"} <= set(
        found.to_dict()
    )


def test_a_negative_estimate_is_explained():
    assert "negative" in answer(-0.1, (-0.2, 0.0), ceiling=9.0, estimator="nwj", n=100).reasons[0]


def test_every_row_answers_and_every_bound_trains(few_steps):
    pairs = correlated_gaussians(160, nats=0.5)
    for name in set(ESTIMATORS) - {"labels", "table"}:
        assert math.isfinite(estimate(pairs.x, pairs.y, bound=name).nats)
    for name in set(BOUNDS) - {"jensen_shannon"}:
        assert math.isfinite(estimate(pairs.x, pairs.y, bound=name, critic="bilinear", batch=64, folds=2).nats)


# --- parts ------------------------------------------------------------------------------------------------------------


def test_gaussianizing_undoes_any_increasing_map_of_a_column():
    x = numbers(200, 2)
    np.testing.assert_array_equal(gaussianized(np.exp(x)), gaussianized(x))


def test_the_copula_is_unbiased_where_there_is_nothing():
    nats = [copula_information(numbers(300, 5, seed), numbers(300, 5, seed + 1000))[0] for seed in range(40)]
    assert abs(np.mean(nats)) < 4 * np.std(nats) / math.sqrt(40)


def test_gaussian_pairs_look_gaussian_at_any_strength_and_spirals_and_students_do_not():
    pairs = correlated_gaussians(3000, d=5, nats=10.0)
    assert looks_gaussian(pairs.x.numpy(), pairs.y.numpy() ** 3)
    assert not looks_gaussian(spiral(pairs.x, speed=2.0).numpy(), pairs.y.numpy())
    heavy = student(3000, dx=3, dy=3, degrees=3)
    assert not looks_gaussian(heavy.x.numpy(), heavy.y.numpy())


def test_six_clusters_seen_in_many_columns_of_noise_do_not_look_gaussian():
    generator = np.random.default_rng(0)
    which, (first, second) = generator.integers(0, 6, 300), 8 * generator.normal(size=(2, 6, 20))
    x, y = (centers[which] + generator.normal(size=(300, 20)) for centers in (first, second))
    assert not looks_gaussian(x, y)
    found = estimate(x, y)
    assert found.interval[0] < math.log(6) < found.interval[1]


def test_a_scale_that_both_sides_share_is_found_though_no_column_correlates():
    generator = np.random.default_rng(101)
    scale = np.array([1.0, 4.12])

    def draw(n):
        spread = scale[generator.integers(0, 2, n)][:, None]
        return spread * generator.normal(size=(n, 3)), spread * generator.normal(size=(n, 3))

    def log_density(*sides):  # up to a constant that cancels
        terms = [sum(-0.5 * (side**2).sum(1) / s**2 - 3 * math.log(s) for side in sides) for s in scale]
        return np.logaddexp(*terms) - math.log(2)

    x, y = draw(8000)
    a, b = draw(200_000)
    truth = float((log_density(a, b) - log_density(a) - log_density(b)).mean())
    found = estimate(x, y)
    assert found.interval[0] < truth < found.interval[1]
    assert truth - found.nats < 0.1 * truth


def test_turned_columns_hold_a_rotation_by_the_radius():
    pairs = correlated_gaussians(3000, d=3, nats=3.0)
    turned = described(spiral(pairs.x).numpy())[1]
    straight = gaussianized(pairs.x.numpy())[:, :1]
    predicted = turned @ np.linalg.lstsq(turned, straight, rcond=None)[0]
    linear = gaussianized(spiral(pairs.x).numpy())
    from_columns = linear @ np.linalg.lstsq(linear, straight, rcond=None)[0]
    assert np.var(straight - predicted) < 0.5 * np.var(straight - from_columns)


def test_weak_dependence_spread_over_many_dimensions_is_found():
    pairs = correlated_gaussians(1500, d=50, nats=2.0, seed=1)
    assert estimate(pairs.x, pairs.y, folds=2).nats == pytest.approx(2.0, abs=0.2)
    assert estimate(pairs.x, pairs.y, bound="entropies").nats == pytest.approx(2.0, abs=0.3)


def test_entropies_go_beyond_the_logarithm_of_the_samples():
    pairs = correlated_gaussians(2000, d=20, nats=18.0)
    found = estimate(pairs.x, pairs.y, bound="entropies")
    assert found.nats == pytest.approx(18.0, abs=1.0)
    assert found.nats > 2 * math.log(2000)


def test_usable_information_grows_with_the_family():
    x = numbers(1500, 2)
    label = (x[:, :1] * x[:, 1:] > 0).astype(int)
    assert abs(usable_information(x, label, family="linear")) < 0.05
    assert usable_information(x, label, family="neighbors") > 0.5


def test_usable_information_of_a_linear_gaussian_is_its_mutual_information():
    pairs = correlated_gaussians(3000, nats=0.8)
    assert usable_information(pairs.x, pairs.y) == pytest.approx(0.8, abs=0.06)


def test_wasserstein_dependency_is_about_zero_for_independent_and_scales_with_the_columns():
    x, noise = numbers(300), numbers(300, seed=1)
    assert abs(wasserstein_dependency(x, noise)) < 0.1
    assert wasserstein_dependency(x, x) > 0.2
    assert wasserstein_dependency(3 * x, 3 * x) == pytest.approx(3 * wasserstein_dependency(x, x))


def test_an_interval_leaves_out_less_below_than_above():
    pairs = discrete_channel(20_000, torch.tensor([[0.4, 0.1], [0.1, 0.4]]))
    found = estimate(pairs.x, pairs.y, bound="table")
    below, above = found.nats - found.interval[0], found.interval[1] - found.nats
    assert below / above == pytest.approx(norm.ppf(0.975) / norm.ppf(0.925), rel=0.01)


def test_a_table_of_numbers_that_do_not_repeat_is_refused():
    """The bias of n x n cells with one pair each is n / 2 nats: what is left would be no information."""
    with pytest.raises(ValueError, match="needs values that repeat"):
        estimate(numbers(100), numbers(100, seed=1), bound="table")


def test_classifiers_without_a_label_say_so():
    with pytest.raises(ValueError, match="Neither variable is a label"):
        estimate(numbers(100), numbers(100, seed=1), bound="labels")


@pytest.mark.parametrize(
    ("values", "kind"), [(numbers(60) + 1j, "complex128"), (np.arange(60).astype("M8[s]"), "datetime64")]
)
def test_what_is_neither_a_real_number_nor_a_name_is_refused(values, kind):
    with pytest.raises(ValueError, match=f"x must hold real numbers or names, not {kind}"):
        estimate(values, numbers(60))


def test_names_mixed_with_numbers_are_refused_in_a_sentence():
    with pytest.raises(ValueError, match="not a mixture of several kinds"):
        estimate(np.array(["a", 1.0, None] * 20, dtype=object), numbers(60))


def test_large_whole_numbers_that_float64_merges_keep_their_information():
    bits = np.random.default_rng(0).integers(0, 2, 400)
    assert estimate(2**62 + bits, bits).nats == pytest.approx(math.log(2), abs=0.05)


def test_bfloat16_tensors_are_read():
    x = torch.from_numpy(numbers(80))
    assert estimate(x.bfloat16(), x.bfloat16()).nats == estimate(x.bfloat16().float(), x.bfloat16().float()).nats

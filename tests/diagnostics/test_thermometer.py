"""The thermometer: chance and floor against the objectives themselves, the constants of issue trackers, verdicts."""

import math

import pytest
import torch

import vergence as vg
from vergence.diagnostics import SCALES, coincidences, thermometer
from vergence.objectives import OBJECTIVES
from vergence.tables import UnknownName

SHAPES = [(2, 3), (5, 8), (16, 4), (7, 40)]
SETTINGS = {
    "info_nce": [{}, {"temperature": 0.5}],
    "nt_xent": [{}, {"temperature": 0.1}],
    "revised_info_nce": [{}, {"weight": 0.1}, {"weight": 3.0}],
    "linear_contrastive": [{}, {"weight": 5.0}],
    "triplet": [{}, {"margin": 5.0}, {"mining": "hard"}],
    "alignment": [{}, {"alpha": 1.0}],
    "uniformity": [{}, {"t": 0.5}],
    "align_uniform": [{}, {"align_weight": 0.2, "uniform_weight": 2.0}],
    "spectral": [{}, {"mu": 4.0}, {"mu": 0.5}],
    "barlow_twins": [{}, {"off_diagonal": 0.5}],
}
CASES = [(name, setting) for name in SCALES for setting in SETTINGS.get(name, [{}])]


def value(name, z1, z2, **hyperparameters):
    """The objective of two views; labels, where there must be some, are one class per pair of neighbors."""
    if name in ("uniformity", "sigreg", "koleo"):
        return OBJECTIVES[name](z1, **hyperparameters)
    extra = (torch.arange(len(z1)) // 2,) if name == "supervised" else ()
    return OBJECTIVES[name](z1, z2, *extra, **hyperparameters)


def embeddings(n, d, seed):
    return torch.randn(2, n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def minimized(name, n, d, setting, seed=0, steps=150):
    """The lowest value that L-BFGS finds from a random start."""
    z = embeddings(n, d, seed).requires_grad_()
    optimizer = torch.optim.LBFGS([z], max_iter=steps, line_search_fn="strong_wolfe", tolerance_change=1e-14)

    def closure():
        optimizer.zero_grad()
        loss = value(name, *z, **setting)
        loss.backward()
        return loss

    optimizer.step(closure)
    return float(value(name, *z.detach(), **setting))


def test_every_objective_has_a_scale_and_no_other():
    assert set(SCALES) == set(OBJECTIVES)


@pytest.mark.parametrize(("name", "setting"), CASES)
@pytest.mark.parametrize(("n", "d"), SHAPES)
def test_chance_is_the_objective_of_coinciding_embeddings(name, setting, n, d):
    z = torch.ones(n, d, dtype=torch.float64) * 3  # outside every ball
    z = 0 * z if name in ("sigreg", "lejepa") else z  # where rows that coincide have the least
    assert thermometer(name, n=n, d=d, **setting).chance == pytest.approx(float(value(name, z, z, **setting)), abs=1e-9)


@pytest.mark.parametrize(("name", "setting"), CASES)
@pytest.mark.parametrize(("n", "d"), SHAPES)
def test_no_batch_random_or_optimized_is_below_the_floor(name, setting, n, d):
    floor = thermometer(name, n=n, d=d, **setting).floor
    random = [float(value(name, *embeddings(n, d, seed), **setting)) for seed in range(8)]
    aligned = [float(value(name, z, z, **setting)) for z, _ in (embeddings(n, d, seed) for seed in range(8))]
    best = minimized(name, n, d, setting, steps=20)
    assert min([*random, *aligned, best]) >= floor - 1e-9


@pytest.mark.parametrize("name", ["info_nce", "nt_xent", "two_modal", "decoupled", "revised_info_nce", "align_uniform",
                                  "linear_contrastive", "spectral", "barlow_twins", "vicreg", "triplet"])  # fmt: skip
def test_an_attained_floor_is_reached_by_optimization(name):
    n, d = {"barlow_twins": (9, 4), "vicreg": (9, 4)}.get(name, (5, 8))
    scale = thermometer(name, n=n, d=d)
    assert scale.attained
    best = min(minimized(name, n, d, {}, seed=seed, steps=600) for seed in range(3))
    assert best == pytest.approx(scale.floor, abs=2e-4 * (scale.chance - scale.floor))


@pytest.mark.parametrize("name", SCALES)
def test_a_function_is_read_as_its_name_is(name):
    assert thermometer(OBJECTIVES[name], n=8, d=4) == thermometer(name, n=8, d=4)


def test_the_doctor_takes_a_function_too():
    z1, z2 = torch.randn(2, 64, 8, generator=torch.Generator().manual_seed(0))
    named, given = (
        vg.doctor(z1, z1=z1, z2=z2, objective=each, loss=4.0, batch=32) for each in ("nt_xent", OBJECTIVES["nt_xent"])
    )
    assert given == named


def test_the_floor_with_a_queue_is_reached_by_a_simplex_of_all_candidates():
    points = torch.eye(10, dtype=torch.float64) - 0.1
    twice = points[:1].repeat(2, 1)  # an objective wants two rows at least
    loss = OBJECTIVES["info_nce"](twice, twice, negatives=points[1:], temperature=0.3)
    found = thermometer("info_nce", n=4, d=10, negatives=9, temperature=0.3)
    assert found.attained
    assert found.floor == pytest.approx(float(loss), rel=1e-12)


def test_any_encoders_are_above_the_floor_with_a_queue_once_every_candidate_has_been_the_own_one():
    query, key = (torch.randn(10, 3, generator=torch.Generator().manual_seed(seed)).double() for seed in (0, 1))
    own = query + 0.1 * key
    losses = []
    for i in range(10):
        others = torch.cat([own[:i], own[i + 1 :]])
        one, its = query[[i, i]], own[[i, i]]  # an objective wants two rows at least
        losses.append(OBJECTIVES["info_nce"](one, its, negatives=others, temperature=0.3))
    assert float(torch.stack(losses).mean()) > thermometer("info_nce", n=4, d=3, negatives=9, temperature=0.3).floor


def test_a_batch_whose_queue_is_opposite_to_it_passes_the_floor_and_is_not_called_impossible():
    query = torch.ones(4, 3, dtype=torch.float64)
    loss = float(OBJECTIVES["info_nce"](query, query, negatives=-torch.ones(9, 3).double(), temperature=0.3))
    found = thermometer("info_nce", n=4, d=3, negatives=9, temperature=0.3, loss=loss)
    assert (found.verdict, found.position > 1) == ("near the floor", True)
    assert "opposite" in found.sentence
    assert thermometer("info_nce", n=4, d=3, negatives=9, temperature=0.3, loss=loss - 0.01).verdict == "impossible"


def with_hard_negatives(z, temperature):
    """The objective of queries, keys and, behind them, the explicit negatives of each sample."""
    return OBJECTIVES["info_nce"](z[0], z[1], hard_negatives=z[2:].flatten(0, 1), temperature=temperature)


@pytest.mark.parametrize(("n", "d", "each", "temperature"), [(5, 8, 1, 0.5), (4, 12, 3, 0.2), (6, 3, 2, 0.3)])
def test_hard_negatives_of_the_whole_batch_are_candidates(n, d, each, temperature):
    """Chance is log n (1 + m), the loss of embeddings that coincide; optimization reaches the floor if d allows."""
    scale = thermometer("info_nce", n=n, d=d, temperature=temperature, hard_negatives=each)
    collapsed = with_hard_negatives(torch.ones(2 + each, n, d, dtype=torch.float64), temperature)
    assert scale.chance == pytest.approx(float(collapsed), rel=1e-12)
    z = torch.randn(2 + each, n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    optimizer = torch.optim.LBFGS([z], max_iter=600, line_search_fn="strong_wolfe", tolerance_change=1e-14)

    def closure():
        optimizer.zero_grad()
        loss = with_hard_negatives(z, temperature)
        loss.backward()
        return loss

    optimizer.step(closure)
    best = float(closure().detach())
    assert best > scale.floor - 1e-9
    assert scale.attained == (d >= n) == (best < scale.floor + 1e-4)


def test_the_supervised_floor_is_reached_by_a_simplex_of_equally_frequent_classes():
    centers = torch.eye(3, dtype=torch.float64) - 1 / 3
    labels = torch.arange(12) % 3
    loss = OBJECTIVES["supervised"](centers[labels], centers[labels], labels, temperature=0.4)
    assert thermometer("supervised", n=12, d=3, temperature=0.4, classes=3).floor == pytest.approx(
        float(loss), rel=1e-12
    )


@pytest.mark.parametrize("name", sorted(set(SCALES) - {"flat_nce"}))
def test_random_is_the_mean_over_uniform_embeddings(name):
    n, d = 32, 6
    drawn = torch.nn.functional.normalize(
        torch.randn(200, 2, n, d, generator=torch.Generator().manual_seed(1)).double(), dim=3
    )
    if name == "supervised":  # one class per sample, as the scale has no labels to know of
        values = torch.stack([OBJECTIVES[name](*pair, torch.arange(n)) for pair in drawn])
    else:
        values = torch.stack([value(name, *pair) for pair in drawn])
    scale = thermometer(name, n=n, d=d)
    error = math.hypot(float(values.std()) / math.sqrt(len(values)), scale.random_error)
    bias = 0.01 if "uniform" in name else 0.0  # the logarithm of a mean over few pairs is lower on average
    assert abs(scale.random - float(values.mean())) < 5 * error + bias


@pytest.mark.parametrize(
    ("loss", "objective", "setting", "constant"),
    [
        (4.85, "info_nce", {"n": 128}, "ln 128"),
        (5.545, "info_nce", {"n": 256}, "ln 256"),
        (5.545, "nt_xent", {"n": 256, "temperature": 0.5}, "ln 256"),
        (8.909, "nt_xent", {"n": 256, "temperature": 0.7}, "ln(511) / 0.7"),
        (11.09, "info_nce", {"n": 256, "negatives": 65536, "temperature": 0.07}, "ln 65537"),
    ],
)
def test_the_constants_of_the_issue_trackers_are_recognized_as_collapse(loss, objective, setting, constant):
    reading = thermometer(objective, d=128, loss=loss, **setting)
    assert reading.verdict == "collapsed"
    assert constant in reading.coincidences


def test_a_coincidence_needs_the_digits_that_were_written():
    assert coincidences(4.85, n=128) == ("ln 128",)
    assert coincidences(4.8, n=128) == ()
    assert coincidences(4.853, n=128) == ()
    assert coincidences(math.log(128), n=128) == ("ln 128",)


@pytest.mark.parametrize(
    ("loss", "verdict"),
    [
        (6.236, "collapsed"),
        (6.30, "not started"),
        (6.22, "not started"),
        (5.0, "learning"),
        (4.29, "near the floor"),
        (4.2, "impossible"),
    ],
)
def test_verdicts_along_the_scale_of_nt_xent(loss, verdict):
    reading = thermometer("nt_xent", n=256, d=128, loss=loss)
    assert reading.verdict == verdict
    assert reading.position == pytest.approx((reading.chance - loss) / (reading.chance - reading.floor))


def test_at_chance_the_sentence_says_what_would_tell_collapse_from_not_started():
    sentence = thermometer("nt_xent", n=256, d=128, loss=math.log(511)).sentence
    assert "initialized" in sentence
    assert "embeddings" in sentence


def test_objectives_that_collapse_minimizes_say_so():
    assert thermometer("negative_cosine", n=64, d=16, loss=-0.01).verdict == "not started"
    assert thermometer("negative_cosine", n=64, d=16, loss=-0.8).verdict == "learning"
    close = thermometer("negative_cosine", n=64, d=16, loss=-0.99)
    assert close.verdict == "near the floor"
    assert "collapse" in close.sentence
    assert math.isnan(close.position)


def test_the_value_of_flat_nce_is_said_to_say_nothing():
    assert thermometer("flat_nce", n=8, d=4, loss=1.0).verdict == "unknown"


def test_errors_say_what_is_known():
    with pytest.raises(UnknownName, match="Did you mean 'nt_xent'"):
        thermometer("nt_xnt", n=8, d=4)
    with pytest.raises(ValueError, match=r"nt_xent has no hyperparameter 'tau'\. Known: temperature"):
        thermometer("nt_xent", n=8, d=4, tau=0.1)
    with pytest.raises(ValueError, match="at least 2 pairs"):
        thermometer("nt_xent", n=1, d=4)
    with pytest.raises(ValueError, match="diverged"):
        thermometer("nt_xent", n=8, d=4, loss=math.nan)


@pytest.mark.parametrize("temperature", [0.0, -0.1, math.nan, math.inf])
def test_temperatures_that_no_loss_has_are_refused(temperature):
    with pytest.raises(ValueError, match="temperature of nt_xent must be a positive number"):
        thermometer("nt_xent", n=64, d=16, temperature=temperature)


def test_a_queue_sets_the_number_of_candidates():
    found = thermometer("info_nce", n=256, d=128, loss=6.9, negatives=65536)
    assert found.chance == pytest.approx(math.log(65537))
    assert found.verdict == "learning"
    assert found.position == pytest.approx(0.43, abs=0.005)


def test_byols_two_minus_two_cosines_is_read_as_such():
    assert thermometer("negative_cosine", n=64, d=16, loss=-0.85).verdict == "learning"
    other = thermometer("negative_cosine", n=64, d=16, loss=0.3)
    assert other.verdict == "learning"
    assert "cosine of 0.85" in other.sentence
    assert thermometer("negative_cosine", n=64, d=16, loss=2.0).verdict == "not started"
    assert "point away from each other" in thermometer("negative_cosine", n=64, d=16, loss=3.9).sentence
    assert thermometer("negative_cosine", n=64, d=16, loss=0.0).verdict == "unknown"
    assert thermometer("negative_cosine", n=64, d=16, loss=4.5).verdict == "impossible"


@pytest.mark.parametrize("objective", ["align_uniform", "vicreg"])
def test_unrelated_views_have_not_started(objective):
    generator = torch.Generator().manual_seed(0)
    for scale in (0.1, 0.25, 1.0):
        z1, z2 = (scale * torch.randn(256, 32, generator=generator) for _ in range(2))
        loss = float(OBJECTIVES[objective](z1, z2))
        assert thermometer(objective, n=256, d=32, loss=loss).verdict == "not started", scale


@pytest.mark.parametrize("objective", [name for name in SCALES if name not in ("vicreg", "supervised")])
def test_no_batch_is_above_the_ceiling(objective):
    generator = torch.Generator().manual_seed(1)
    z = torch.nn.functional.normalize(torch.randn(16, 8, generator=generator, dtype=torch.float64), dim=1)
    same = z[:1].expand(16, -1).contiguous()
    ceiling = SCALES[objective](16, 8, **_defaults(objective)).ceiling
    for first, second in ((z, -z), (z, z.roll(1, 0)), (same, -same), (same, same)):
        assert float(value(objective, first, second)) <= ceiling + 1e-9


def _defaults(objective):
    return dict(thermometer(objective, n=16, d=8).hyperparameters)


def test_a_loss_above_the_largest_is_impossible():
    found = thermometer("nt_xent", n=64, d=16, temperature=0.5, loss=30.0)
    assert found.verdict == "impossible"
    assert "largest value" in found.sentence
    assert found.ceiling == pytest.approx(math.log1p(126 * math.exp(4)))


def test_a_batch_of_a_thousand_million_costs_nothing():
    assert thermometer("info_nce", n=10**9, d=128).chance == pytest.approx(math.log(10**9))


def test_views_without_relation_do_not_pass_the_mark_of_siglip_and_reach_it():
    """Own and other pairs of one cosine c lose softplus(-Tc - b) + (n - 1) softplus(Tc + b), which is convex in c."""
    n, t, b = 16, 10.0, -10.0
    losses = []
    for c in torch.linspace(-1, 1, 401, dtype=torch.float64):
        z1 = torch.tensor([1.0, 0.0], dtype=torch.float64).expand(n, 2)
        z2 = torch.stack([c, (1 - c**2).clamp(min=0).sqrt()]).expand(n, 2)
        losses.append(float(OBJECTIVES["siglip"](z1, z2, temperature=t, bias=b)))
    mark = min(losses)
    assert thermometer("siglip", n=n, d=2, loss=mark + 1e-3).verdict == "not started"
    assert thermometer("siglip", n=n, d=2, loss=0.8 * mark).verdict == "learning"
    for seed in range(5):
        assert float(OBJECTIVES["siglip"](*embeddings(n, 8, seed), temperature=t, bias=b)) > mark


def test_a_scale_whose_collapse_is_far_away_is_read_from_unrelated_views():
    """SigLIP of 256 pairs: 177 at collapse, 6.54 for unrelated views, .70 at the floor: 7 is no 96 %."""
    assert thermometer("siglip", n=256, d=128, loss=7.0).verdict == "not started"
    assert thermometer("siglip", n=256, d=128, loss=0.75).verdict == "near the floor"
    found = thermometer("siglip", n=256, d=128, loss=3.6)
    assert found.verdict == "learning"
    assert "50 % of the way from views without relation" in found.sentence

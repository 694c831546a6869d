"""Causes told apart: what explains lengths, what two groups share, how labels came to be wrong."""

import numpy as np
import pytest
import torch
from scipy.stats import mannwhitneyu

from vergence.diagnostics import diagnose, merging, reading, removal, trials, view_trials
from vergence.diagnostics.class_directions import class_directions
from vergence.diagnostics.copies import exact_copies
from vergence.diagnostics.faults import columns, lengths, rows
from vergence.diagnostics.faults.directions import added
from vergence.diagnostics.grouping import association
from vergence.diagnostics.reading import replaced_share
from vergence.diagnostics.splitting import told_by_others
from vergence.diagnostics.trials import bench

N, D, CLASSES = 600, 24, 6


def noise(*shape, seed):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


LABELS = torch.from_numpy(np.random.default_rng(0).integers(0, CLASSES, N))
SCALE = 1 / (1 + torch.arange(D, dtype=torch.float64)).sqrt()
H = (0.8 * noise(CLASSES, D, seed=1)[LABELS] + noise(N, D, seed=2)) * SCALE


def faults(h, labels=LABELS):
    return diagnose(h, labels=labels, diagnostics={}).faults


def test_lengths_that_belong_to_the_class_are_explained_and_drawn_ones_are_not():
    of_class = H * torch.exp(LABELS.double() - 2.5)[:, None]
    drawn = H * noise(N, 1, seed=3).mul(0.7).exp()
    assert lengths.unexplained_lengths(bench(of_class)) < lengths.UNEXPLAINED
    assert lengths.unexplained_lengths(bench(drawn)) > lengths.UNEXPLAINED
    assert "heavy-tailed lengths" in faults(drawn)


@pytest.mark.parametrize("decimals", [0, 6])  # with ties, and without
def test_a_match_is_the_share_of_partners_that_are_farther_and_half_of_those_as_near(decimals):
    first = noise(40, 3, seed=0).round(decimals=decimals) + torch.tensor([0.1, 0.0, 0.0])
    second = (first + 0.5 * noise(40, 3, seed=1)).round(decimals=decimals)
    a, b = (torch.nn.functional.normalize(z, dim=1).float() for z in (first, second))
    scores = (a @ b.T)[:, :, None]
    others = scores.transpose(1, 2)
    expected = ((others < scores).sum(2) + ((others == scores).sum(2) - 1) / 2) / 39
    assert torch.equal(view_trials._percentiles(first, second), expected)
    assert view_trials.matching(first, second).value == pytest.approx(float(expected.diagonal().double().mean()))


def test_two_halves_of_one_cloud_share_their_directions_and_a_turned_half_shares_none():
    half = torch.arange(N) < N // 2
    turned = torch.where(half[:, None], H @ torch.linalg.qr(noise(D, D, seed=4)).Q, H)
    same, other = (class_directions(rows, LABELS, half) for rows in (H, turned))
    assert same.signal
    assert other.signal
    assert max(abs(same.classes - 1), abs(same.scatter - 1)) < 0.1
    assert max(abs(other.classes), abs(other.scatter)) < 0.3


def test_the_error_of_what_two_models_share_is_its_spread_over_draws():
    half = torch.arange(N) % 2 == 0
    centers = 0.3 * noise(2 * CLASSES, D, seed=1)[LABELS + CLASSES * half]
    drawn = [class_directions(centers + noise(N, D, seed=100 + k), LABELS, half) for k in range(60)]
    values = torch.tensor([each.classes for each in drawn])
    assert 0.7 < float(values.std()) / float(torch.tensor([each.error for each in drawn]).mean()) < 1.4


def test_groups_drawn_at_random_are_independent_of_many_small_classes():
    """Cramer's V of 400 rows in 41 classes is .32 by luck alone, as much as of groups that follow the classes."""
    labels = torch.from_numpy(np.random.default_rng(0).integers(0, 41, 400))
    drawn = [association(noise(400, seed=k) > 0, labels) for k in range(20)]
    assert max(drawn) < 0.25
    assert association(labels < 20, labels) > 0.9


@pytest.mark.parametrize("classes", [2, 6])
@pytest.mark.parametrize("part", [0.25, 0.75])
def test_another_model_from_a_row_on_is_found_where_all_rows_are_one_cloud(classes, part):
    """White rows have the same covariance turned: only the classes lie elsewhere."""
    labels = LABELS % classes
    rows = 2 * noise(classes, D, seed=11)[labels] + noise(N, D, seed=12)
    rows = (rows - rows.mean(dim=0)) @ torch.linalg.inv(torch.linalg.cholesky(torch.cov(rows.T)).T)
    later = torch.arange(N) >= part * N
    turned = torch.where(later[:, None], rows @ torch.linalg.qr(noise(D, D, seed=13)).Q, rows)
    assert "mixture" not in faults(rows, labels)
    assert "mixture" in faults(turned, labels)


def test_a_tenth_of_the_rows_from_another_model_is_a_mixture_even_if_it_is_far_away():
    chosen = torch.randperm(N, generator=torch.Generator().manual_seed(14))[: N // 10]
    far = H + 0.0
    far[chosen] = 12 * H[chosen] @ torch.linalg.qr(noise(D, D, seed=15)).Q
    assert "mixture" in faults(far)


def test_wrong_labels_are_named_beside_columns_in_other_units():
    """The readers of labels do not mind units: what costs accuracy otherwise is no reason to wait."""
    generator = torch.Generator().manual_seed(16)
    wrong = torch.rand(N, generator=generator) < 0.3
    labels = torch.where(wrong, (LABELS + torch.randint(1, CLASSES, (N,), generator=generator)) % CLASSES, LABELS)
    rows = 2 * noise(CLASSES, D, seed=1)[LABELS] + noise(N, D, seed=2)
    rows[:, 3] = 100 * noise(N, seed=17)
    assert "label noise" in faults(rows, labels)


def test_two_sources_of_one_model_are_noted_and_two_models_are_a_fault():
    half = (torch.arange(N) % 2 == 0)[:, None]
    centers = noise(2 * CLASSES, D, seed=5)
    sources = (4 * centers[LABELS + CLASSES * half.squeeze(1)] + noise(N, D, seed=6)) * SCALE + 6 * half * SCALE
    turned = torch.where(half, H @ torch.linalg.qr(noise(D, D, seed=4)).Q + 1, H - 1)
    assert "mixture" in faults(turned)
    assert "mixture" not in faults(sources)


def test_rows_of_zeros_are_no_copies_of_each_other():
    rows = H.clone()
    rows[torch.randperm(N, generator=torch.Generator().manual_seed(20))[:120]] = 0.0
    assert faults(rows) == ("empty rows",)
    twice = torch.cat([rows, rows])
    assert exact_copies(twice) == N - 120
    assert merging.of(twice, torch.arange(2 * N)).copies == N - 120


def test_two_sources_that_are_noted_cost_nothing():
    """Neighbors do not cross: what a search in the other source would lose is not lost by this file."""
    half = torch.arange(N) % 2 == 0
    rows = 3 * noise(CLASSES, D, seed=5)[LABELS] + noise(N, D, seed=6) + 60 * half[:, None] * noise(1, D, seed=7)
    found = {finding.fault: finding for finding in diagnose(rows, labels=LABELS, diagnostics={}).findings}
    assert found["mixture"].level == "note"
    assert found["mixture"].cost is None


def test_what_a_removal_gives_is_told_of_the_neighbors_that_it_was_tried_on():
    rows = 2 * noise(CLASSES, D, seed=1)[LABELS] + noise(N, D, seed=2)
    rows[:, 0] = 20 * noise(N, seed=17)
    found = removal.without_top(bench(rows, LABELS), 0.9)
    scores = {"cosine of centered rows": trials.cosine, "distance": trials.euclidean}[found.measure]
    before, after = (
        trials.correct(scores(each), LABELS).double().mean()
        for each in (trials.centered(trials.clipped(rows)), trials.without_top(trials.clipped(rows), found.count))
    )
    assert found.tried.gain.value == pytest.approx(float(after - before), abs=0.02)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.3])
def test_the_share_of_labels_drawn_from_any_class_is_found(share):
    """Scores of a softmax that is right about its own doubt: nothing but the replaced labels is left to explain."""
    scores = 3 * noise(4000, 5, seed=7)
    generator = torch.Generator().manual_seed(8)
    labels = torch.multinomial(scores.softmax(dim=1), 1, generator=generator).squeeze(1)
    wrong = torch.rand(4000, generator=generator) < share
    labels = torch.where(wrong, (labels + torch.randint(1, 5, (4000,), generator=generator)) % 5, labels)
    found = replaced_share(scores[None].numpy(), labels.numpy())
    assert abs(found.share - share) < 0.03
    assert (found.evidence > 10) == (share > 0)


@pytest.mark.parametrize("classes", [2, 6])
def test_permuted_labels_are_at_chance_and_their_own_are_known(classes):
    labels = LABELS % classes
    body = bench(H, labels)
    readers = reading.readers(body)
    for seed in range(5):
        order = torch.randperm(N, generator=torch.Generator().manual_seed(seed))
        assert not reading.judged(readers, trials.Bench(body.rows, body.labels[order], body.index, 1.0)).above_chance
    assert reading.judged(readers, body).nats > 50


def test_weak_rows_that_know_something_of_their_labels_are_not_at_chance():
    """Neighbors are right in 58 % of rows of two classes, which 20 permutations would leave undecided."""
    labels = torch.arange(300) % 2
    h = noise(300, D, seed=31) + 0.45 * (2 * labels[:, None] - 1) * noise(1, D, seed=32) / D**0.5 * 2
    assert "labels at chance" not in faults(h, labels)
    assert "labels at chance" in faults(h, labels[torch.randperm(300, generator=torch.Generator().manual_seed(3))])


def of_lumps(rates, n, columns, seed):
    """Rows in far lumps, in each of which a class is as common as its rate says; and what a lump tells, in nats."""
    random = np.random.default_rng(seed)
    lump = random.integers(0, len(rates), n)
    labels = (random.random(n) < np.array(rates)[lump]).astype(int)
    rows = random.standard_normal((n, columns)) + 3 * random.standard_normal((len(rates), columns))[lump]
    shares, chances = np.array([1 - labels.mean(), labels.mean()]), np.stack([1 - np.array(rates), np.array(rates)], 1)
    return rows, labels, float(np.log(chances[lump, labels] / shares[labels]).sum())


@pytest.mark.parametrize(("rates", "n", "columns"), [
    ((0.16, 0.04, 0.23), 1000, 100), ((0.07, 0.42, 0.16, 0.11, 0.48, 0.15), 1000, 30), ((0.3, 0.7, 0.12), 600, 8),
])  # fmt: skip
def test_readers_know_of_a_rare_class_most_of_what_there_is_to_know(rates, n, columns):
    """How common a class is stood in the scores and beside them: of 24 nats 1.6 were left, which is chance."""
    rows, labels, nats = of_lumps(rates, n, columns, seed=3)
    body = bench(torch.from_numpy(rows), torch.from_numpy(labels))
    found = reading.judged(reading.readers(body), body)
    assert 0.6 * nats < found.nats < 1.2 * nats
    assert "labels at chance" not in faults(rows, labels)


def test_wrong_labels_are_found_where_one_class_is_rare():
    random = np.random.default_rng(5)
    labels = (random.random(800) < 0.1).astype(int)
    rows = random.standard_normal((800, 20)) + np.outer(labels, np.full(20, 0.9))
    wrong = random.random(800) < 0.1
    assert "label noise" in faults(rows, np.where(wrong, 1 - labels, labels))
    assert "label noise" not in faults(rows, labels)


@pytest.mark.parametrize("share", [0.05, 0.15, 0.3])
def test_wrong_labels_are_named_where_rows_know_the_right_ones_and_not_said_of_right_ones(share):
    generator = torch.Generator().manual_seed(33)
    h = 2.5 * noise(CLASSES, D, seed=1)[LABELS] + noise(N, D, seed=2)
    wrong = torch.rand(N, generator=generator) < share
    labels = torch.where(wrong, (LABELS + torch.randint(1, CLASSES, (N,), generator=generator)) % CLASSES, LABELS)
    assert faults(h, labels) == ("label noise",)
    assert faults(h) == ()


def test_overlapping_classes_are_not_called_wrong_labels_and_too_much_overlap_is_said_to_hide_them():
    overlapping = 0.25 * noise(CLASSES, D, seed=1)[LABELS] + noise(N, D, seed=2)
    found = {each.fault: each for each in diagnose(overlapping, labels=LABELS, diagnostics={}).findings}
    assert found["label noise"].level == "unknown"
    assert "replaced on trial" in found["label noise"].sentence


def test_lengths_of_rows_in_a_cone_are_not_taken_for_columns_in_other_units():
    """Multiplied rows vary most where the cone points: six columns stand out by more than five times."""
    cone = 0.2 * H + torch.where(torch.arange(D) < 4, 4.0, 0.0)
    found = faults(cone * noise(N, 1, seed=34).exp())
    assert "heavy-tailed lengths" in found
    assert "column scales" not in found


def test_the_best_of_many_trials_of_nothing_is_nothing():
    """The best of 40 draws looks like a gain; judged by the rows that did not choose it, it is none."""
    generator = torch.Generator().manual_seed(35)

    def drawn() -> trials.Votes:
        own = torch.rand(400, generator=generator, dtype=torch.float64)
        return trials.Votes(torch.rand(400, generator=generator) < 0.5, own)

    changes = [(drawn(), drawn()) for _ in range(40)]
    chosen, judged = trials.cross_fitted(changes)
    tried = [trials.tried(*change) for change in changes]
    assert tried[chosen].errors == max(one.errors for one in tried)
    assert max(one.gain.value for one in tried) > 0.05
    assert not judged.pays(errors=trials.PLAIN)


@pytest.mark.parametrize("seed", [50, 51, 52])
def test_votes_show_in_three_hundred_rows_a_direction_that_accuracy_does_not(seed):
    """Noise along one direction, as strong as all others together: the accuracy alone is not beyond three errors."""
    along = noise(1, D, seed=seed)
    spread = H.var(dim=0).sum().sqrt()
    h = (H + spread * noise(N, 1, seed=seed + 10) * along / along.norm())[:300]
    found = diagnose(h, labels=LABELS[:300], diagnostics={})
    assert "dominant direction" in found.faults
    assert "dominant direction" not in faults(H[:300], LABELS[:300])


def test_a_constant_that_was_added_is_told_from_the_mean_of_positive_features():
    assert added(H + 3 * noise(1, D, seed=60))
    assert not added(H.clamp(min=0))


def test_twins_are_counted_once_and_no_cost_is_below_zero():
    """A third of the rows are copies of others: so many are superfluous, and more than those have a twin."""
    h, labels = H.clone(), LABELS.clone()
    h[:200], labels[:200] = h[200:400], labels[200:400]
    found = next(each for each in diagnose(h, labels=labels, diagnostics={}).findings if each.fault == "duplicates")
    assert "33 % of rows are superfluous" in found.sentence
    assert "67 % have a twin" in found.sentence
    assert "-0." not in rows.lost(trials.difference(torch.zeros(50), torch.ones(50)))


def test_of_shifts_that_fit_alike_the_smallest_is_named():
    """In blocks of ten, a shift by one block renames the classes and fits as well as none."""
    blocks = torch.arange(N) // 10 % CLASSES
    h = 3 * noise(CLASSES, D, seed=1)[blocks] + noise(N, D, seed=2)
    found = diagnose(h, labels=blocks.roll(1), diagnostics={})
    assert found.faults == ("misaligned labels",)
    assert "stands 1 row later" in found.verdict.evidence[0]


def test_what_only_accuracy_tells_is_no_fault_while_labels_are_wrong():
    h = H + 8 * noise(N, 1, seed=9) * noise(1, D, seed=10) / D**0.5
    assert "dominant direction" in faults(h)
    found = diagnose(h, labels=LABELS.roll(1), diagnostics={})
    assert found.faults == ("misaligned labels",)


def test_part_of_the_principal_components_is_still_principal():
    u = torch.pca_lowrank(noise(2 * N, D, seed=11) * 4 * SCALE**2, q=D)[0] * 4 * SCALE**2
    assert columns._principal(u[::2], torch.tensor([0, 1]))
    assert not columns._principal(u[::2] * torch.where(torch.arange(D) == 20, 30.0, 1.0), torch.tensor([20]))


def test_copies_in_many_directions_are_a_fault_although_values_are_few():
    coarse = (H / H.abs().max() * 127).round()
    twice = torch.cat([coarse[: N // 2], coarse[: N // 2]])
    labels = torch.cat([LABELS[: N // 2], LABELS[: N // 2]])
    assert "duplicates" in faults(twice, labels)
    assert "duplicates" not in faults(coarse)


def test_one_class_in_a_hundred_leaves_chance_undecided():
    rare = torch.where(torch.arange(N) % 100 == 0, 1, 0)
    found = {each.fault: each.level for each in diagnose(H, labels=rare, diagnostics={}).findings}
    assert found["labels at chance"] == "unknown"


def test_classes_of_three_rows_cannot_be_called_noisy():
    labels = torch.arange(N) // 3
    h = noise(N // 3, D, seed=12)[labels] + 0.8 * noise(N, D, seed=13)
    assert "label noise" not in faults(h, labels)


def test_white_rows_of_two_models_are_a_mixture_and_those_of_one_are_not():
    """Turned white rows are the same cloud; only what classes say of each other is lost."""
    white = 2.5 * noise(CLASSES, 12, seed=14)[LABELS] + noise(N, 12, seed=15)
    white = (white - white.mean(0)) @ torch.linalg.inv(torch.linalg.cholesky(white.T.cov()).mT)
    other = torch.rand(N, generator=torch.Generator().manual_seed(16)) < 0.3
    turned = torch.where(other[:, None], white @ torch.linalg.qr(noise(12, 12, seed=17)).Q, white)
    assert "mixture" in faults(turned)
    assert "mixture" not in faults(white)


def test_a_column_that_drowns_the_others_is_a_fault_of_rows_and_not_of_labels():
    drowned = H * torch.where(torch.arange(D) == D - 1, 1e4, 1.0)
    assert "labels at chance" not in faults(drowned)
    assert "column scales" in faults(drowned) or "dominant direction" in faults(drowned)


def test_two_blocks_normalized_by_themselves_are_told_by_their_digits():
    rows = torch.cat([trials.standardized(part) for part in H[:100].split(64)])
    assert "batch statistics leak" in faults(rows, LABELS[:100])
    assert "batch statistics leak" not in faults(H[:100], LABELS[:100])


def test_one_reader_knows_sectors_that_no_linear_reader_knows():
    angle = torch.arange(400, dtype=torch.float64) * (2 * torch.pi / 400)
    sectors, rows = (angle / (torch.pi / 4)).long() % 2, torch.stack([angle.cos(), angle.sin()], dim=1)
    scores = reading.readers(bench(rows, sectors)).scores(sectors)
    linear, bent = ((scores[reader].argmax(axis=1) == sectors.numpy()).mean() for reader in (1, 2))
    assert bent > 0.95
    assert linear < 0.6


def test_a_loss_that_embeddings_do_not_give_is_said_to_be_another():
    z1 = torch.nn.functional.normalize(noise(300, 16, seed=22), dim=1)
    z2 = torch.nn.functional.normalize(z1 + 0.05 * noise(300, 16, seed=23), dim=1)
    found = diagnose(z1, z1=z1, z2=z2, objective="negative_cosine", loss=0.9, diagnostics={})
    assert "0.9 is not that of these embeddings" in found.verdict.sentence


def test_early_in_training_where_views_match_badly_no_layer_is_called_wrong():
    """Fourteen steps on MNIST: 64 % of representations match their embedding, and 66 % of views each other."""
    inner = noise(N, D, seed=21)
    weak = {"z1": inner + 3 * noise(N, D, seed=22), "z2": inner + 3 * noise(N, D, seed=23)}
    good = {"z1": inner + 0.2 * noise(N, D, seed=22), "z2": inner + 0.2 * noise(N, D, seed=23)}
    options = {"objective": "nt_xent", "temperature": 0.5, "diagnostics": {}}
    assert "wrong layer" in diagnose(inner, **good, **options).faults
    assert "wrong layer" not in diagnose(inner, **weak, **options).faults


@pytest.mark.parametrize("shift", [0.0, 0.3, 0.6, 2.0])
def test_doubt_of_contradicted_rows_is_judged_as_by_the_test_of_mann_and_whitney(shift):
    random = np.random.default_rng(0)
    margins = np.r_[random.exponential(size=60) + shift, random.exponential(size=25)]
    logits = np.stack([margins, np.zeros(85), np.full(85, -1.0)], axis=1)
    right = np.arange(85) < 60
    theirs = mannwhitneyu(margins[~right], margins[right], alternative="less", method="asymptotic")
    assert reading._less_sure(logits, right, ~right) == (theirs.pvalue < 0.003)


@pytest.mark.parametrize("seed", [62, 63, 64])
def test_weak_classes_of_one_cloud_are_no_mixture(seed):
    """Two models, fitted with labels to one cloud, are unlike by luck: other rows do not tell their groups."""
    labels = torch.randint(0, 10, (450,), generator=torch.Generator().manual_seed(seed))
    rows = 0.2 * noise(10, 30, seed=seed + 10)[labels] + noise(450, 30, seed=seed + 20)
    assert not faults(rows, labels)


@pytest.mark.parametrize("seed", [0, 1])
def test_clusters_of_one_model_that_share_no_directions_are_no_mixture(seed):
    """Whichever way six lumps are cut in two, neighbors across know nothing, and a half falls apart once more."""
    rows, labels, _ = of_lumps((0.24, 0.48, 0.22, 0.12, 0.81, 0.46), 600, 60, seed=seed)
    assert "mixture" not in faults(rows, labels)


def test_two_models_of_two_classes_in_clusters_are_a_mixture():
    random = np.random.default_rng(6)
    labels, source = random.integers(0, 2, 500), random.integers(0, 2, 500)
    rows = (3 * random.standard_normal((2, 24))[labels] + random.standard_normal((500, 24))) * SCALE.numpy()
    turned = 4 + rows @ np.linalg.qr(random.standard_normal((24, 24)))[0]
    assert "mixture" in faults(np.where(source[:, None] == 1, turned, rows), labels)
    assert "mixture" not in faults(rows, labels)


def test_a_group_that_rows_do_not_show_is_not_found_again():
    generator = np.random.default_rng(61)
    rows, labels = generator.standard_normal((400, 8)), generator.integers(0, 4, 400)
    shown, hidden = rows[:, 0] > 0, generator.random(400) < 0.5
    assert (told_by_others(rows, labels, shown) == shown).mean() > 0.9
    assert abs((told_by_others(rows, labels, hidden) == hidden).mean() - 0.5) < 0.1


def test_views_that_match_weakly_but_tell_the_labels_are_not_shuffled():
    generator = torch.Generator().manual_seed(62)
    labels = torch.randint(0, 10, (450,), generator=generator)
    classes = torch.randn(10, 30, generator=generator)
    first, second = (0.2 * classes[labels] + torch.randn(450, 30, generator=generator) for _ in range(2))
    levels = {f.fault: f.level for f in diagnose(first, z1=first, z2=second, labels=labels, diagnostics={}).findings}
    order = torch.randperm(450, generator=generator)
    found = diagnose(first, z1=first, z2=second[order], labels=labels, diagnostics={}).faults
    assert levels.get("shuffled pairs") != "fault"
    assert "shuffled pairs" in found

"""The diagnosis: every defect is named when made on purpose, sound rows raise none, and each group has its verdict."""

import json
import math

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

from vergence.diagnostics import DIAGNOSTICS, FAULTS, Measured, diagnose, gather, measure
from vergence.diagnostics.by_name import needed
from vergence.diagnostics.faults.learning import frozen_projector
from vergence.diagnostics.findings import ABOUT, Finding
from vergence.tables import Table

N, CLASSES = 640, 10


def noise(*shape, seed):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def labels(n=N):
    return torch.from_numpy(np.random.default_rng(0).integers(0, CLASSES, n))


def rows(n=N, d=32, seed=2):
    """Ten overlapping classes."""
    return 0.9 * noise(CLASSES, d, seed=1)[labels(n)] + noise(n, d, seed=seed)


def run(**changes):
    """What a training run has: representations, two views' embeddings, labels, objective."""
    h, projection = 1.3 / 0.9 * rows(), noise(32, 16, seed=3)
    z1, z2 = ((h + 0.3 * noise(N, 32, seed=seed)) @ projection for seed in (4, 5))
    given = {"h": h, "z1": z1, "z2": z2, "labels": labels(), "objective": "nt_xent", "batch": 128}
    return given | {name: change(given) for name, change in changes.items()}


def diagnosed(h, **given):
    return diagnose(h, diagnostics={}, **given)


def diagnosed_run(**changes):
    given = run(**changes)
    return diagnosed(given.pop("h"), **given)


def copied(h, part=0.3):
    source = np.random.default_rng(1).integers(0, len(h), int(part * len(h)))
    return torch.cat([h, h[source]]), torch.cat([labels(len(h)), labels(len(h))[source]])


def in_blocks(h, block=64):
    blocks = h.reshape(-1, block, h.shape[1])
    return ((blocks - blocks.mean(dim=1, keepdim=True)) / blocks.std(dim=1, keepdim=True)).reshape(h.shape)


def with_rows(h, index, value):
    h = h.clone()
    h[index] = value
    return h


def flipped(share):
    wrong = torch.rand(N, generator=torch.Generator().manual_seed(6)) < share
    return torch.where(wrong, (labels() + 1 + torch.arange(N) % 9) % CLASSES, labels())


H = rows()
SPREAD = float(H.std(dim=0).square().sum().sqrt())
FOREIGN = {
    "empty rows": (with_rows(H, slice(0, 64), 0.0), labels()),
    "outliers": (with_rows(H, slice(0, 3), 1e20 * noise(3, 32, seed=9)), labels()),
    "batch statistics leak": (in_blocks(H), labels()),
    "mixture": (torch.cat([H[:320] + 3, H[320:] @ torch.linalg.qr(noise(32, 32, seed=8)).Q - 3]), labels()),
    "duplicates": copied(H),
    "quantization": ((H > 0).float() * 2 - 1, labels()),
    "dead columns": (H * (torch.arange(32) < 6), labels()),
    "heavy-tailed lengths": (H * (1.5 * noise(N, 1, seed=7)).exp(), labels()),
    "dominant direction": (H + 10 * SPREAD * noise(N, 1, seed=7) * normalize(noise(1, 32, seed=8)), labels()),
    "column scales": (H * torch.where(torch.arange(32) < 2, 100.0, 1.0), labels()),
    "misaligned labels": (H, labels().roll(1)),
    "labels at chance": (H, labels()[torch.from_numpy(np.random.default_rng(5).permutation(N))]),
    "label noise": (H * 2, flipped(0.2)),
    "dimensional collapse": (H @ noise(32, 2, seed=9) @ noise(2, 32, seed=10), labels()),
    "complete collapse": (torch.ones(N, 32), labels()),
}


@pytest.mark.parametrize("fault", FOREIGN)
def test_a_defect_of_a_foreign_file_is_named_and_no_advice_speaks_of_training(fault):
    h, targets = FOREIGN[fault]
    found = diagnosed(h, labels=targets)
    assert fault in found.faults
    assert found.verdict.label in ("faulty", "collapsed")
    words = " ".join(finding.advice for finding in found.findings).lower()
    assert not {word for word in ("projector", "stop-gradient", "temperature", "augmentation") if word in words}


def test_sound_rows_raise_no_alarm_and_tell_what_shows_it():
    found = diagnosed(H, labels=labels())
    assert found.faults == ()
    assert found.verdict.label == "healthy"
    assert found.groups["learning"].label == "not examined"
    assert any("told apart" in line for line in found.verdict.evidence)


RUNS = {
    "complete collapse": {"z1": lambda g: 1 + 1e-3 * g["z1"], "z2": lambda g: 1 + 1e-3 * g["z2"]},
    "dimensional collapse": {"h": lambda given: given["h"][:, :3] @ noise(3, 32, seed=9)},
    "dead view": {"z2": lambda given: given["z2"][:1].expand(N, -1)},
    "misaligned views": {"z2": lambda given: given["z2"].roll(1, 0)},
    "shuffled pairs": {"z2": lambda given: given["z2"][torch.from_numpy(np.random.default_rng(3).permutation(N))]},
    "unnormalized input": {"loss": lambda given: raw_nt_xent(given)},
    "temperature too high": {"temperature": lambda given: 10.0},
    "temperature too low": {"temperature": lambda given: 0.001},
    "wrong layer": {"h": lambda given: (given["z1"] + given["z2"]) / 2},
    "impossible loss": {"loss": lambda given: 100.0},
    "frozen projector": {"projector": lambda given: torch.nn.Linear(64, 32).state_dict()},
}


def raw_nt_xent(given, temperature=0.5):
    z = torch.cat([given["z1"][:128], given["z2"][:128]])
    scores = (z @ z.T / temperature).fill_diagonal_(-torch.inf)
    return float(torch.nn.functional.cross_entropy(scores, torch.arange(256).roll(128)))


@pytest.mark.parametrize("fault", RUNS)
def test_a_fault_of_a_run_is_named(fault):
    torch.manual_seed(0)
    assert fault in diagnosed_run(**RUNS[fault]).faults


def test_a_sound_run_is_learning():
    found = diagnosed_run()
    assert found.faults == ()
    assert found.verdict.label == "learning"
    assert {verdict.label for verdict in found.groups.values()} == {"no fault"}


def test_a_constant_vector_is_an_offset_and_not_one_point():
    found = diagnosed(H + 100, labels=labels())
    assert "complete collapse" not in {finding.fault for finding in found.findings}
    assert "constant offset" in {finding.fault for finding in found.findings}
    alone = diagnosed(H + 1000)
    assert alone.verdict.label == "cannot tell"
    assert {finding.level for finding in alone.findings if finding.fault == "complete collapse"} == {"unknown"}


def test_embeddings_that_no_loss_compared_may_share_a_constant():
    offset = {"z1": H + 1000, "z2": H + 1000, "labels": labels(), "projector": {}}
    assert "complete collapse" in diagnosed(H, **offset).faults
    assert "complete collapse" not in diagnosed(H, **offset, compared=False).faults


def test_class_clusters_at_accuracy_one_have_not_collapsed():
    tight = noise(CLASSES, 32, seed=1)[labels()] + 1e-5 * noise(N, 32, seed=2)
    found = diagnosed(tight, labels=labels())
    assert found.faults == ()
    assert {finding.fault for finding in found.findings if finding.level == "note"} & {
        "cluster collapse",
        "dimensional collapse",
    }


def test_names_of_classes_do_not_matter():
    renamed = (torch.tensor([3, 7, 1, 0, 9, 8, 2, 6, 5, 4]))[flipped(0.2)]
    first, second = diagnosed(H, labels=flipped(0.2)), diagnosed(H, labels=renamed)
    assert first.faults == second.faults
    assert [f.cost.value for f in first.findings if f.cost] == pytest.approx(
        [f.cost.value for f in second.findings if f.cost]
    )


@pytest.mark.parametrize("shift", [1, -2, 7])
def test_the_shift_of_labels_and_of_views_is_found(shift):
    said = [f.sentence for f in diagnosed(H, labels=labels().roll(shift)).findings if f.fault == "misaligned labels"]
    where = f"{abs(shift)} row{'s' * (abs(shift) > 1)} {'later' if shift > 0 else 'earlier'}"
    assert where in said[0]
    views = diagnosed(H, z1=H, z2=(H + 0.3 * noise(N, 32, seed=4)).roll(shift, 0))
    assert where in next(f.sentence for f in views.findings if f.fault == "misaligned views")


def test_two_views_that_are_the_same_rows_show_nothing():
    found = diagnosed(H, z1=H, z2=H.clone())
    assert found.verdict.label == "cannot tell"
    assert "identical views" in {finding.fault for finding in found.findings}
    assert "identical views" not in {f.fault for f in diagnosed(H, z1=H, z2=H + 1e-3 * noise(N, 32, seed=4)).findings}


def test_second_views_off_by_one_are_seen_in_sorted_data():
    order = torch.argsort(labels(), stable=True)
    second = (H + 0.3 * noise(N, 32, seed=4))[order]
    assert diagnosed(H[order], z1=H[order], z2=second).faults == ()
    assert diagnosed(H[order], z1=H[order], z2=second.roll(1, 0)).faults == ("misaligned views",)


def test_encoders_that_share_no_directions_are_not_called_shuffled():
    found = diagnosed(H, z1=H, z2=(H + 0.1 * noise(N, 32, seed=4)) @ noise(32, 32, seed=7))
    assert found.faults == ()


def test_views_that_no_loss_compared_need_not_be_close():
    changed = {
        "z2": lambda g: g["z2"][torch.from_numpy(np.random.default_rng(3).permutation(N))],
        "objective": lambda g: None,
    }
    assert "shuffled pairs" in diagnosed_run(**changed).faults
    assert diagnosed_run(**changed, compared=lambda given: False).faults == ()


def test_without_a_projector_embeddings_may_lie_where_representations_do():
    changes = {"h": lambda given: (given["z1"] + given["z2"]) / 2}
    assert diagnosed_run(**changes, projector=lambda given: {}).faults == ()


def test_a_trained_projector_is_not_called_frozen():
    layer = torch.nn.Linear(64, 32)
    optimizer = torch.optim.Adam(layer.parameters(), lr=1e-2)
    for _ in range(5):
        optimizer.zero_grad()
        layer(torch.ones(4, 64)).square().sum().backward()
        optimizer.step()
    assert frozen_projector(layer.state_dict()) is None


def test_a_small_matrix_that_stays_within_the_bound_by_luck_is_not_called_frozen():
    assert frozen_projector(torch.nn.Linear(8, 8).state_dict()) is None


def test_two_classes_are_not_a_fault_of_their_own():
    two = labels() % 2
    h = 2 * noise(2, 32, seed=1)[two] + noise(N, 32, seed=2)
    z1, z2 = ((h + 0.3 * noise(N, 32, seed=seed)) @ noise(32, 16, seed=3) for seed in (4, 5))
    found = diagnosed(h, z1=z1, z2=z2, labels=two, objective="nt_xent")
    assert found.faults == ()
    assert "false negatives" in {finding.fault for finding in found.findings if finding.level == "note"}


@pytest.mark.parametrize("n", [2, 10, 29])
def test_few_rows_are_too_few_to_say(n):
    found = diagnosed(noise(n, 5, seed=0), labels=torch.arange(n) % 2)
    assert found.verdict.label == "too few rows"
    assert found.faults == ()


def test_noise_is_not_healthy():
    assert diagnosed(noise(N, 32, seed=0)).verdict.label == "cannot tell"
    assert diagnosed(noise(N, 32, seed=0), labels=labels()).faults == ("labels at chance",)


def test_one_row_of_1e20_is_an_outlier_and_nothing_else():
    assert diagnosed(with_rows(noise(100, 20, seed=0), 99, 1e20)).faults == ("outliers",)


def test_a_loss_at_chance_beside_embeddings_that_have_learned_is_not_theirs():
    found = diagnosed_run(loss=lambda given: math.log(255))
    assert found.verdict.label == "learning"
    assert "The loss 5.541 is not that of these embeddings" in found.verdict.sentence


def test_every_fault_has_a_group_an_order_and_a_sentence():
    for name, detector in FAULTS.items():
        assert detector.about in ABOUT, name
        assert detector.order > 0, name
        assert len(detector.__doc__) > 20, name
    orders = [detector.order for detector in FAULTS.values()]
    assert len(set(orders)) == len(orders)


def test_findings_are_plain_data():
    for finding in diagnosed(*FOREIGN["duplicates"][:1], labels=FOREIGN["duplicates"][1]).findings:
        assert isinstance(finding, Finding)
        json.dumps(finding.to_dict())


# What only rows of texts have, and runs with prototypes.
TEXTS = {"words": noise(N, 2, seed=6)}
PROTOTYPES = {"objective": "dino", "batch": 128}
OF_ITS_OWN = {
    **dict.fromkeys(("mean_cosine", "length_bias", "frequency_bias"), TEXTS),
    **dict.fromkeys(("student_entropy", "teacher_entropy", "prototypes_used"), PROTOTYPES),
}


@pytest.mark.parametrize("name", DIAGNOSTICS)
def test_every_diagnostic_is_measured_from_what_it_asks_for(name):
    given = run() | OF_ITS_OWN.get(name, {})
    found = measure(given.pop("h"), rows=Table("diagnostic", {name: DIAGNOSTICS[name]}), **given)
    if name == "accuracy_without_copies":
        assert found == {}  # no copies, nothing to correct
        return
    assert isinstance(found[name], Measured)
    assert len(found[name].meaning) > 20
    assert found[name].heading != "other"
    json.dumps(found[name].to_dict())


def test_a_row_of_ones_own_is_measured_where_its_arguments_are():
    def widest(h, labels):
        """The column with the largest spread."""
        return float(h.std(dim=0).max())

    table = Table("diagnostic", {"widest": widest})
    assert measure(H, rows=table) == {}
    found = measure(H, rows=table, labels=labels())["widest"]
    assert found.value == float(H.std(dim=0).max())
    assert (found.title, found.meaning) == ("widest", "The column with the largest spread.")


def test_what_rows_share_is_derived_once():
    given = gather(H, labels=labels())
    assert needed(FAULTS["mixture"]) == ("body", "grouped", "exact", "n")
    assert given["bench"] is given["bench"]
    assert "z1" not in given
    assert "matched" not in given


def test_fewer_rows_than_a_batch_are_read_on_the_scale_of_their_own_number():
    """The loss of 36 unrelated pairs is below that of collapse in batches of 64, and means nothing."""
    h, z1, z2 = (noise(36, 16, seed=seed) for seed in (1, 2, 3))
    found = diagnose(h, z1=z1, z2=z2, objective="nt_xent", loss=math.log(127), batch=64, steps=4, temperature=0.5)
    assert found.verdict.label not in ("learning", "near the floor")


def test_a_method_without_a_projector_is_not_told_to_widen_one():
    flat = noise(N, 2, seed=1) @ noise(2, 32, seed=2)
    for compared in (True, False):
        found = diagnose(flat, labels=labels(), objective="nt_xent", batch=128, compared=compared)
        (finding,) = [each for each in found.findings if each.fault == "dimensional collapse"]
        assert ("projector" in finding.advice) == compared == (finding.override is not None)


def test_embeddings_are_not_asked_for_more_directions_than_enter_the_last_layer_of_the_projector():
    """A hidden layer of 6 columns leaves room for 7 of 32 directions: those are filled, or collapsed to 1."""
    inner, outer = noise(6, 32, seed=3), noise(32, 6, seed=4)
    found = []
    for last in (outer, outer[:, :1] @ noise(1, 6, seed=5)):
        given = run()
        z1, z2 = (((given["h"] + 0.3 * noise(N, 32, seed=seed)) @ inner.T).relu() @ last.T for seed in (6, 7))
        told = diagnosed(**given | {"z1": z1, "z2": z2, "projector": {"0.weight": inner, "2.weight": last}})
        found.append([each.sentence for each in told.findings if each.fault == "dimensional collapse"])
    assert found[0] == []
    assert "of 7 directions carry nothing" in found[1][0]


def test_a_linear_head_that_widens_is_no_collapse_though_nobody_showed_it():
    found = diagnosed_run(
        **{name: lambda own, name=name: own[name][:, :9] @ noise(9, 128, seed=3) for name in ("z1", "z2")}
    )
    assert "dimensional collapse" in [each.fault for each in found.findings]
    wide = noise(32, 128, seed=3)
    found = diagnosed_run(z1=lambda own: own["h"] @ wide, z2=lambda own: own["h"] @ wide + 0.1 * noise(N, 128, seed=4))
    assert "dimensional collapse" not in [each.fault for each in found.findings]

"""Every subset is drawn, never sliced: a run on data sorted by class says what a run on shuffled data says."""

import numpy as np
import pytest
import torch

import vergence as vg
from vergence.counters import shuffled
from vergence.data import load
from vergence.runs import accuracies, assembly, results
from vergence.runs.run import Run


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Six hundred digits, sorted by class and shuffled, each trained for an epoch."""
    folder = tmp_path_factory.mktemp("orders")
    digits = load("digits,limit=600")
    orders = {"sorted": digits.labels.argsort(stable=True), "shuffled": shuffled(torch.arange(len(digits)), seed=3)}
    options = {"backbone": {"channels": (8, 16)}, "encoder": "convnet", "track": (), "quiet": True, "batch": 50}
    for name, order in orders.items():
        np.savez(folder / f"{name}.npz", x=digits.x[order].numpy().squeeze(1), y=digits.labels[order].numpy())
        vg.train(data=f"array:{folder / name}.npz", epochs=1, run=folder / name, **options)
    return [folder / name for name in orders]


def _scores(run):
    found = results.read(run)
    return (*found.accuracy, *found.few_labels)


def overlap(first, second):
    return first.low <= second.high and second.low <= first.high


def test_accuracies_of_the_encoder_and_its_baselines_overlap(runs):
    first, second = (
        {(score.features, score.classifier, score.per_class): score for score in _scores(run)} for run in runs
    )
    assert first.keys() == second.keys()
    assert len({features for features, _, _ in first}) == 3  # trained, untrained and raw
    assert any(count is not None for _, _, count in first)  # few labels
    for name, score in first.items():
        assert overlap(score, second[name]), name


def test_the_certificate_knows_all_classes(runs):
    """Naming the largest of ten classes of equal size is wrong in nine of ten cases; of the first rows, in fewer."""
    for run in runs:
        first = results.read(run).certificates[0]
        assert first.terms["chance error"] == pytest.approx(0.9, abs=0.02)


def test_probes_of_every_layer_overlap(runs):
    for first, second in zip(*(accuracies.probed_layers(Run(run)) for run in runs), strict=True):
        assert overlap(first, second), first.layer


def test_batch_norms_are_calibrated_on_all_classes(runs):
    """Statistics of the first rows of sorted data would be those of two digits."""
    first, second = (dict(assembly.untrained(assembly.trained(Run(run)), batches=2).named_buffers()) for run in runs)
    means = [name for name in first if name.endswith("running_mean")]
    assert means
    for name in means:
        spread = first[name.replace("mean", "var")].sqrt()
        assert ((first[name] - second[name]).abs() < 0.25 * spread).all()


def test_fine_tuning_overlaps(runs):
    first, second = (
        vg.finetune(run, labels=("5-per-class",), draws=2, steps=3, quiet=True).to_dict()["finetuning"][0]["scores"]
        for run in runs
    )
    for one, other in zip(first, second, strict=True):
        assert one["low"] <= other["high"], one["features"]
        assert other["low"] <= one["high"], one["features"]

"""Which rows are held out."""

import subprocess
import sys

import numpy as np
import pytest
from sklearn.model_selection import train_test_split

from vergence.evaluation.held_out import held_out, held_out_evenly


@pytest.mark.parametrize("n", [5, 7, 10, 99, 1234])
def test_the_rows_are_those_of_scikit_learn(n):
    for seed in range(5):
        for own, theirs in zip(
            held_out(n, 0.2, seed=seed), train_test_split(np.arange(n), test_size=0.2, random_state=seed), strict=True
        ):
            np.testing.assert_array_equal(own, theirs)


@pytest.mark.parametrize(("n", "classes"), [(10, 2), (37, 3), (200, 7), (501, 10)])
def test_each_class_has_its_share_as_in_scikit_learn(n, classes):
    for seed in range(5):
        drawn = np.random.default_rng(seed)
        codes = np.concatenate([np.repeat(np.arange(classes), 2), drawn.integers(0, classes, n - 2 * classes)])
        held = max(classes, n // 5)
        theirs = train_test_split(np.arange(n), test_size=held, stratify=codes, random_state=seed)
        for own, other in zip(held_out_evenly(codes, held, seed=seed), theirs, strict=True):
            np.testing.assert_array_equal(own, other)


def test_the_doctor_of_an_array_waits_for_no_large_library():
    code = (
        "import sys, numpy as np, vergence as vg\n"
        "draw = np.random.default_rng(0)\n"
        "labels = draw.integers(0, 3, 300)\n"
        "vg.doctor(draw.standard_normal((300, 8)) + np.eye(3, 8)[labels], labels=labels)\n"
        "print([name for name in ('sklearn', 'scipy.stats', 'pandas') if name in sys.modules])"
    )
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert made.stdout.strip().splitlines()[-1] == "[]"

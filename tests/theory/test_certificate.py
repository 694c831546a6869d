"""Certificates say what an inequality is worth, and never raise."""

import json
import math

import pytest
import torch

from vergence.counters import drawn
from vergence.theory import Certificate, certified


def certificate(left, right, **fields):
    return Certificate("left <= right", "nowhere", left, right, **fields)


@pytest.mark.parametrize(
    ("left", "right", "vacuous", "verdict"),
    [
        (0.1, 0.3, False, "informative"),
        (0.1, 1.3, True, "vacuous"),
        (0.4, 0.3, False, "violated"),
        (0.4, 0.3, True, "violated"),
        (0.3 + 1e-12, 0.3, False, "informative"),
        (0.3, math.inf, True, "vacuous"),
        (0.3, math.nan, False, "violated"),
    ],
)
def test_the_verdict_reads_both_sides(left, right, vacuous, verdict):
    assert certificate(left, right, vacuous=vacuous).verdict == verdict


def test_slack_is_what_the_right_side_leaves():
    assert certificate(0.25, 1.0).slack == 0.75


def test_a_certificate_becomes_json():
    given = certificate(0.1, 0.3, terms={"sigma": 0.9}, curves={"epsilon": [0.1, 0.2]}, assumptions={"L": "assumed"})
    read = json.loads(json.dumps(given.to_dict()))
    assert read["holds"]
    assert read["terms"] == {"sigma": 0.9}
    assert read["curves"]["epsilon"] == [0.1, 0.2]


def test_of_many_pairs_some_are_drawn(monkeypatch):
    z1, z2 = torch.randn(2, 90, 6, generator=torch.Generator().manual_seed(0))
    monkeypatch.setattr(certified, "PAIRS", 40)
    (whole,) = certified.certificates({"test_z1": z1, "test_z2": z2})
    some = drawn(90, 40)
    (part,) = certified.certificates({"test_z1": z1[some], "test_z2": z2[some]})
    assert (whole.left, whole.terms) == (part.left, part.terms)

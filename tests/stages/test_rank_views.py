"""The verb views: short trials decide, theory describes."""

import json
import shlex

import numpy as np
import pytest
import torch

from vergence import cli
from vergence.data import Samples
from vergence.learning.ranking import joined
from vergence.stages.views import views as rank_views

QUICK = {"steps": 2, "samples": 64, "per_class": 4, "view_count": 3, "resamples": 1, "quiet": True}


def tinted(n=240):
    """Stripes of all directions under one of three slight tints: color is the class."""
    labels, generator = torch.arange(n) % 3, torch.Generator().manual_seed(0)
    angle, phase = torch.rand(2, n, 1, 1, generator=generator) * 6.3
    down, across = torch.arange(12.0)[:, None], torch.arange(12.0)
    stripes = 120 + 90 * (across * angle.cos() + down * angle.sin() + phase).sin()
    tint = torch.eye(3)[labels] * 24
    return Samples(
        (stripes[:, None] + tint[:, :, None, None]).to(torch.uint8), "image", labels, tuple("rgb"), source="tinted"
    )


def test_where_color_is_the_class_it_does_not_choose_the_usual_recipe():
    found = rank_views(data=tinted(), sets=("extreme-color", "crop"), **QUICK | {"steps": 20, "samples": 240})
    assert found.best.name == "crop"
    assert not found.sets[1].tried.tied
    assert found.sentence.startswith("crop is the best of 2 sets")


def test_sorted_and_shuffled_data_give_the_same_within_their_intervals():
    whole = tinted()
    orders = whole.labels.argsort(stable=True), torch.randperm(240, generator=torch.Generator().manual_seed(1))
    options = QUICK | {"steps": 5, "samples": 120, "sets": ("crop", "extreme-color")}
    first, second = (
        {row.name: row.tried.last for row in rank_views(data=whole.take(o), **options).sets} for o in orders
    )
    for name, reading in first.items():
        assert reading.interval[0] <= second[name].interval[1]
        assert second[name].interval[0] <= reading.interval[1]


def test_groups_come_from_a_file_follow_the_samples_that_are_drawn_and_are_said(tmp_path, capsys):
    rows = np.random.default_rng(0).normal(size=(120, 6)).astype(np.float32)
    np.save(tmp_path / "x.npy", rows)
    np.save(tmp_path / "y.npy", np.arange(120) % 2)
    (tmp_path / "people.txt").write_text("\n".join(f"person {number // 30}" for number in range(120)))
    words = f"views --data array:{tmp_path}/x.npy --labels {tmp_path}/y.npy --groups {tmp_path}/people.txt --quiet"
    fewer = "--steps 2 --samples 64 --per-class 4 --view-count 2 --resamples 1 --json"
    assert cli.main([*words.split(), *fewer.split()]) == 0
    found = json.loads(capsys.readouterr().out)
    assert any("one of 4, do not vote" in note for note in found["notes"])
    with pytest.raises(ValueError, match="There are 3 groups for 120 samples"):
        rank_views(data=rows, labels=np.arange(120) % 2, groups=[0, 1, 2], **QUICK)
    with pytest.raises(ValueError, match="one group"):
        rank_views(data=rows, labels=np.arange(120) % 2, groups=np.zeros(120, int), **QUICK)


def test_the_answer_is_text_json_and_a_page_with_views_and_a_command(tmp_path):
    page = tmp_path / "views.html"
    found = rank_views(data="digits", sets=("usual", "ad:0.25", "glyph:rotate=45"), output=page, graph=True, **QUICK)
    values = json.loads(json.dumps(found.to_dict()))
    assert {row["name"] for row in values["sets"]} == {"usual", "ad:0.25", "glyph:rotate=45"}
    assert values["labeled"]
    assert values["certificate"]["verdict"] in ("vacuous", "informative")
    html = page.read_text(encoding="utf-8")
    for words in (
        "The order",
        "What the views look like",
        "Train with the best",
        "does not tell",
        "augmentation graph",
    ):
        assert words in html
    assert "describe a set, they do not recommend it" in str(found)


def test_the_command_runs_as_it_is_pasted(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.save("my x.npy", np.random.default_rng(0).normal(size=(60, 6)))
    np.save("y.npy", np.arange(60) % 2)
    found = rank_views(data="array:my x.npy", labels="y.npy", sets=("cells", "noise"), **QUICK)
    program, *arguments = shlex.split(found.command)
    assert program == "vergence"
    assert cli.main([*arguments, "--epochs", "1", "--quiet"]) == 0
    assert (tmp_path / "runs" / found.taken.name / "report.html").exists()


def test_without_labels_it_says_loudly_that_the_order_is_experimental(tmp_path):
    page = tmp_path / "views.html"
    found = rank_views(data=np.random.default_rng(0).normal(size=(80, 5)), output=page, **QUICK)
    assert not found.labeled
    assert str(found).startswith("EXPERIMENTAL: without labels no set is recommended")
    assert found.to_dict()["recommended"] is None
    assert "Train with it" not in str(found)
    assert found.taken.name == "usual"  # whatever the score says
    assert "experimental" in page.read_text(encoding="utf-8")
    assert found.chance is None
    assert found.command.startswith("vergence.ContrastiveEncoder(")


def test_a_control_that_is_tied_with_a_set_is_not_what_the_command_takes():
    generator = np.random.default_rng(0)
    options = QUICK | {"sets": ("none", "cells", "noise"), "samples": 200}
    found = rank_views(data=generator.normal(size=(40, 5)), labels=generator.integers(0, 2, 40), **options)
    assert len(found.ties) == 3  # noise labels: nothing is told apart
    assert found.taken.name != "none"
    assert f"views={found.taken.view_set.views!r}" in found.command


def test_labels_that_cannot_decide_are_left_aside_and_it_is_said():
    found = rank_views(data=np.random.default_rng(0).normal(size=(40, 5)), labels=np.arange(40), **QUICK)
    assert not found.labeled
    assert "left aside" in found.notes[0]


def test_a_class_of_one_sample_does_not_stand_in_the_way():
    x = np.random.default_rng(0).normal(size=(41, 5))
    found = rank_views(data=x, labels=np.append(np.arange(40) % 2, 7), sets=("cells", "none"), **QUICK)
    assert found.best.described is not None


@pytest.mark.parametrize("kind", ["series", "text"])
def test_series_and_texts_have_sets_of_their_own(kind, tmp_path):
    generator = np.random.default_rng(0)
    x = generator.normal(size=(40, 2, 30)) if kind == "series" else generator.integers(1, 50, (40, 9))
    names = {"series": ("usual", "channels"), "text": ("usual", "span")}[kind]
    samples = {"data": Samples(torch.as_tensor(x).float() if kind == "series" else torch.as_tensor(x), kind,
                               torch.arange(40) % 2, ("a", "b"), source="x")}  # fmt: skip
    found = rank_views(**samples, sets=names, output=tmp_path / "p.html", **QUICK)
    assert {row.name for row in found.sets} == set(names)


def test_lines_that_are_read_in_part_or_not_at_all_are_said(tmp_path):
    texts = [f"text number {number} of many" for number in range(60)]
    texts[7], texts[9] = "long " * 20_000, ""
    (tmp_path / "a.txt").write_text("\n".join(texts))
    found = rank_views(data=f"text:{tmp_path}/a.txt", sets=("usual", "span"), **QUICK)
    assert "Line 10 skipped: empty." in found.notes
    assert any("are read of 1 of 59 texts: line 8" in note for note in found.notes)


def test_images_are_reduced_and_it_is_said():
    x = np.random.default_rng(0).integers(0, 255, (40, 48, 48, 3)).astype(np.uint8)
    found = rank_views(data=x, labels=np.arange(40) % 2, sets=("crop", "none"), **QUICK)
    assert any("3 x 32 x 32 instead of 3 x 48 x 48" in note for note in found.notes)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sets": ("usual",)}, "two sets or more"),
        ({"sets": ("usual", "unusual")}, "Unknown set 'unusual'"),
        ({"sets": ("usual", "series")}, "does not make two like views"),
        ({"sets": ("usual", "halves")}, "does not make two like views"),
        ({"samples": 3}, "samples must be at least 32"),
        ({"steps": 1}, "steps must be at least 2"),
        ({"data": np.zeros((9, 4))}, "9 samples; trials need at least 32"),
        ({"data": "digitz"}, "Did you mean 'digits'"),
    ],
)
def test_bad_input_is_refused_in_words(options, words):
    with pytest.raises(ValueError, match=words):
        rank_views(**QUICK | {"data": "digits"} | options)


def test_many_names_become_a_short_sentence():
    assert joined(["a"]) == "a"
    assert joined(["a", "b", "c"]) == "a, b and c"
    assert joined(list("abcdefg")) == "a, b, c, d and 3 others"


def test_where_nearly_all_samples_are_right_it_asks_for_groups_until_they_are_given():
    """Forty places with four near copies each: leave-one-out finds the copies whatever the views are."""
    place, random = np.arange(160) // 4, np.random.default_rng(0)
    rows = (8 * random.normal(size=(40, 6))[place] + 0.01 * random.normal(size=(160, 6))).astype(np.float32)
    options = QUICK | {"samples": 160, "sets": ("usual", "slight-noise"), "labels": place % 2}
    alone, together = rank_views(data=rows, **options), rank_views(data=rows, groups=place, **options)
    assert any("say with --groups" in line for line in alone.caution)
    assert not any("say with --groups" in line for line in together.caution)
    assert together.best.tried.last.score < alone.best.tried.last.score - 0.2
    assert any("intervals are those of drawing groups" in note for note in together.notes)


def test_equal_samples_are_refused():
    with pytest.raises(ValueError, match="All 64 samples of x are equal"):
        rank_views(data=np.ones((64, 5), np.float32), labels=np.arange(64) % 2, **QUICK)

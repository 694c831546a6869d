"""The report: a made-up run of scikit-learn's digits, read as text and looked at in a real browser."""

import base64
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image
from safetensors.numpy import save_file
from scipy.optimize import approx_fprime
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from browser import CHROMIUM, Browser, barriers
from vergence import report
from vergence.report import maps, projection
from vergence.report.colors import CATEGORIES, ROLES
from vergence.report.document import Section, document
from vergence.report.embedding import nearest, preserved_neighbors
from vergence.report.gains import badge
from vergence.report.pieces import svg
from vergence.report.plain import spoken
from vergence.report.record import read
from vergence.runs.results import Gain, Results, Score, Verdict

HOSTILE = "<script>alert('x')</script>"
TEST = load_digits().target[1000:]


def make_run(directory: Path, *, dimensions: int = 32, classes: list[str] | None = None, seed: int = 0) -> Path:
    """A run directory as training leaves it: digits, with principal components for an encoder."""
    images = load_digits().data
    random = np.random.default_rng(seed)
    train, test = images[:1000], images[1000:]
    pca = PCA(32, random_state=0).fit(train)
    noisy = [pca.transform(test + random.normal(0, 2.0, test.shape))[:, :dimensions] for _ in range(2)]
    z1, z2 = (z / np.linalg.norm(z, axis=1, keepdims=True) for z in noisy)
    arrays = {"test_h": pca.transform(test), "test_z1": z1, "test_z2": z2}
    arrays = {name: np.ascontiguousarray(array, dtype=np.float32) for name, array in arrays.items()}
    pictures = np.ascontiguousarray((test.reshape(-1, 1, 8, 8) * 15.9).astype(np.uint8))
    directory.mkdir(parents=True)
    save_file(
        arrays | {"test_labels": TEST.astype(np.int64), "thumbnails": pictures}, directory / "features.safetensors"
    )
    optim = {"learning_rate": 1e-3, "note": HOSTILE}
    config = {"method": "simclr", "data": "digits", "encoder": "convnet", "epochs": 40, "seed": seed, "optim": optim}
    (directory / "config.yaml").write_text(yaml.safe_dump(config))
    (directory / "env.json").write_text(json.dumps({"vergence": "0.1.0", "torch": "2.13.0", "python": "3.13"}))
    (directory / "log.jsonl").write_text("\n".join(log_lines(random)) + '\n{"step": 401, "lo')
    (directory / "results.json").write_text(json.dumps(results(pca.singular_values_, classes or [])))
    return directory


def log_lines(random: np.random.Generator) -> list[str]:
    lines = []
    for step in range(1, 401):
        line = {"step": step, "epoch": step // 10, "loss": 3.6 + 1.8 * np.exp(-step / 60) + random.normal(0, 0.03)}
        if step % 20 == 0:
            fall = float(np.exp(-step / 120))
            line |= {"alignment": 0.25 + 0.4 * fall, "uniformity": -3.4 + 2.5 * fall, "knn": 0.97 - 0.4 * fall}
        lines.append(json.dumps(line))
    return lines


def results(singular_values: np.ndarray, classes: list[str]) -> dict:
    heat = {"objective": "nt_xent", "chance": 6.236, "floor": 2.6, "random": 5.4, "loss": 3.61, "position": 0.722}
    certificate = {
        "statement": "Err <= (1 - sigma) + R_eps",
        "source": "Huang et al. (2023)",
        "left": 0.03,
        "right": 0.41,
    }
    return {
        "verdict": {
            "label": "learning",
            "sentence": "Learning: the loss stands 72 % of the way from chance to its floor; no direction has died.",
            "evidence": ["Loss 3.61, chance 6.236, floor 2.6.", "Effective rank 19.5 of 32."],
        },
        "thermometer": heat | {"verdict": "learning"},
        "accuracy": accuracies(),
        "few_labels": [
            {"features": kind, "per_class": count, "accuracy": 0.9 - 0.3 / count, "spread": 0.1 / count, "draws": 10}
            for kind in ("trained encoder", "raw pixels")
            for count in (1, 5, 20, 144)
        ],
        "diagnostics": {
            "alignment": {"value": 0.262, "low": 0.251, "high": 0.274, "n": 797},
            "uniformity": {"value": -3.31, "low": -3.35, "high": -3.28, "n": 797, "floor": -3.74},
            "effective_rank": {"value": 19.5, "low": 19.1, "high": 19.9, "n": 797},
        },
        "spectrum": {"singular_values": singular_values.tolist()},
        "certificates": [certificate | {"verdict": "informative", "assumptions": {"sigma": "estimated from below"}}],
        "recommendations": [{"sentence": "Train longer.", "measurement": "slope -0.002", "override": "--epochs 80"}],
        "skipped": [[f"photos/{HOSTILE}.jpg", "not an image"]],
        "notes": ["1 file was skipped."],
        "classes": classes,
    }


def accuracies() -> list[dict]:
    kinds = {"trained encoder": (0.981, 0.912), "untrained encoder": (0.902, 0.655), "raw pixels": (0.957, 0.761)}
    drops = {"linear probe": 0.0, "kNN": 0.008, "nearest center": 0.03}
    return [
        {"features": kind, "labels": labels, "classifier": classifier, "n": 797}
        | {"accuracy": value - drop, "low": value - drop - 0.012, "high": value - drop + 0.012}
        for kind, values in kinds.items()
        for labels, value in zip(("all", "5 per class"), values, strict=True)
        for classifier, drop in drops.items()
    ]


@pytest.fixture(autouse=True, scope="module")
def quick_maps():
    """Pages here are about what stands on them: one short map is enough, t-SNE has a test of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(projection, "SLOW", 0)
        patch.setattr(projection, "PHASES", ((10, 1000.0, 3.0, 2.0), (10, 3.0, 3.0, 3.0), (30, 0.0, 0.0, 1.0)))
        yield


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("runs") / "digits")


@pytest.fixture(scope="module")
def html(run):
    return report.page(run)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("runs") / "<b onclick=x>$a$", classes=[HOSTILE, "a & b", "$x$"])


# The page as text


def test_the_page_asks_for_nothing_from_outside(html):
    assert set(re.findall(r"https?://[^\"' <]*", html)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    assert "default-src 'none'" in html
    assert not re.search(r"<(link|img|iframe|object|script)[^>]+(src|href)=\"(?!data:)", html)


def test_the_verdict_comes_first(html):
    assert html.index("no direction has died") < html.index("<nav") < html.index("<section")


def test_the_same_run_gives_the_same_page(run, html):
    assert report.page(run) == html


GAINS = (
    Gain("untrained encoder", "linear probe", first=0.46, second=0.385, low=0.059, high=0.091, n=1200),
    Gain("raw pixels", "linear probe", first=0.46, second=0.322, low=0.12, high=0.156, n=1200),
    Gain("raw pixels", "kNN", first=0.4, second=0.45, low=-0.07, high=-0.03, n=1200),
)


def scored(*rows: tuple[str, str, float]) -> tuple[Score, ...]:
    return tuple(Score(accuracy, features=features, classifier=classifier) for features, classifier, accuracy in rows)


def test_what_training_gave_is_told_first(tmp_path):
    Results(verdict=Verdict("learning", "No fault found."), gains=GAINS).write(tmp_path)
    assert report.summary(tmp_path)[0] == (
        "Training gained 7.5 points over the untrained encoder (38.5 to 46.0 %, 95 % of the gain between 5.9 and 9.1; "
        "raw pixels 32.2 %; linear probe, 1,200 held-out samples)."
    )
    page = report.page(tmp_path)
    assert page.index("Training gained 7.5 points") < page.index("No fault found") < page.index("<main")


@pytest.mark.parametrize(
    ("low", "high", "words", "word", "tone"),
    [
        (0.02, 0.08, "gained 5.0 points", "learning", "good"),
        (-0.02, 0.04, "made no certain difference: +1.0 points over", "no certain gain", "caution"),
        (-0.09, -0.01, "lost 5.0 points", "worse than the untrained encoder", "bad"),
    ],
)
def test_a_gain_that_may_be_nothing_is_not_called_one(low, high, words, word, tone, tmp_path):
    middle = (low + high) / 2
    gain = Gain("untrained encoder", "kNN", first=0.5 + middle, second=0.5, low=low, high=high, n=90)
    found = Results(verdict=Verdict("learning", "No fault found."), gains=(gain,))
    found.write(tmp_path)
    assert words in report.summary(tmp_path)[0]
    assert f'<h1 class="{tone}"><span class="label">{word}</span>' in report.page(tmp_path)
    first = next(iter(spoken(found)))
    assert first.startswith(f"{word.upper()}: Training")
    assert words in first


@pytest.mark.parametrize(
    ("few", "told", "word"),
    [
        ((0.1, 0.2), "With 5 labels per class training gained 15.0 points over", "learning"),
        ((-0.2, -0.1), "With 5 labels per class training lost 15.0 points over", "worse than the untrained encoder"),
        ((-0.1, 0.2), "Training made no certain difference: +1.0 points over", "no certain gain"),
    ],
)
def test_where_all_labels_tell_no_difference_few_labels_may(few, told, word, tmp_path):
    low, high = few
    gains = (
        Gain("untrained encoder", "linear probe", first=0.99, second=0.98, low=-0.01, high=0.03, n=90),
        Gain("untrained encoder", "linear probe", 0.8 + (low + high) / 2, 0.8, low, high, n=90, per_class=5.0),
    )
    found = Results(verdict=Verdict("learning", "No fault found."), gains=gains)
    found.write(tmp_path)
    lines = report.summary(tmp_path)
    assert lines[0].startswith(told)
    if "With 5" in told:
        assert lines[1].startswith("With all labels training made no certain difference: +1.0 points")
    assert f'<span class="label">{word}</span>' in report.page(tmp_path)
    assert next(iter(spoken(found))).startswith(f"{word.upper()}: {told}")


def test_a_certain_gain_with_all_labels_needs_no_second_sentence(tmp_path):
    few = Gain("untrained encoder", "linear probe", 0.7, 0.8, low=-0.2, high=-0.05, n=90, per_class=5.0)
    Results(verdict=Verdict("learning", "No fault found."), gains=(*GAINS, few)).write(tmp_path)
    assert [line[:21] for line in report.summary(tmp_path) if "training" in line.lower()] == ["Training gained 7.5 p"]


def test_it_is_said_wherever_a_baseline_wins(tmp_path):
    rows = scored(
        ("trained encoder", "kNN", 0.4), ("raw pixels", "kNN", 0.45), ("trained encoder", "linear probe", 0.46),
        ("raw pixels", "linear probe", 0.322),
    )  # fmt: skip
    Results(verdict=Verdict("", ""), gains=GAINS, accuracy=rows).write(tmp_path)
    lines = report.summary(tmp_path)
    assert lines[1] == "Ahead of the trained encoder: raw pixels with kNN, all labels: 45.0 % against 40.0 %."


def test_the_curves_of_few_labels_are_drawn_for_every_kind_of_features(html):
    assert "With 1: trained encoder 60.0 %, raw pixels 60.0 %." in html
    assert "mean over 10 draws" in html


def test_names_never_become_markup(hostile):
    page, comparison = report.page(hostile), report.compare([hostile])
    for html in (page, comparison):
        assert "<script>alert" not in html
        assert "<b onclick" not in html
        assert len(re.findall(r"<script", html)) == len(re.findall(r"<script(?: type=\"application/json\")?>", html))
    assert "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;" in page


def test_a_config_and_a_torn_log_are_a_page(tmp_path):
    (tmp_path / "config.yaml").write_text("method: simclr\n")
    (tmp_path / "log.jsonl").write_text('{"step": 1, "loss": 2.5}\n{"step": 2, "loss": NaN}\n{"step": 3, "lo')
    html = report.page(tmp_path)
    assert "The loss goes from 2.500 to 2.500 in 1 steps." in html
    for name in ("env.json", "results.json", "features.safetensors"):
        assert f"<li>{name}" in html


@pytest.mark.parametrize("name", ["config.yaml", "env.json", "results.json", "features.safetensors"])
def test_a_broken_file_is_named_and_the_rest_is_shown(name, tmp_path):
    run = make_run(tmp_path / "run")
    (run / name).write_bytes(b"{: [\x00")
    html = report.page(run)
    assert f"<li>{name}" in html
    assert "cannot be read" in html
    assert "The loss goes from" in html


@pytest.mark.parametrize("key", list(results(np.ones(2), [])))
@pytest.mark.parametrize("value", [None, [], {}, [None], {"x": None}, "text"])
def test_no_part_of_the_results_is_needed_or_trusted(key, value, tmp_path):
    (tmp_path / "results.json").write_text(json.dumps({key: value}))
    assert "How to repeat it" in report.page(tmp_path)


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="is not a run directory: it holds none of config"):
        report.page(tmp_path)
    with pytest.raises(FileNotFoundError, match="No run directory at"):
        report.page(tmp_path / "absent")
    with pytest.raises(ValueError, match="expected at least one run directory"):
        report.compare([])


def test_a_failed_write_keeps_the_old_page(tmp_path, monkeypatch):
    (tmp_path / "config.yaml").write_text("method: simclr\n")
    before = report.write(tmp_path).read_text()

    def full(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "replace", full)
    (tmp_path / "config.yaml").write_text("method: moco\n")
    with pytest.raises(OSError, match="No space"):
        report.write(tmp_path)
    assert (tmp_path / "report.html").read_text() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.yaml", "report.html"]


@pytest.mark.parametrize(
    ("gain", "sentence"), [(0.1, "better is the most accurate"), (0.001, "No run is clearly ahead")]
)
def test_a_run_is_called_better_only_when_the_intervals_are_apart(gain, sentence, tmp_path):
    for name, accuracy in (("worse", 0.8), ("better", 0.8 + gain)):
        row = {"features": "trained encoder", "labels": "all", "classifier": "kNN", "accuracy": accuracy}
        (tmp_path / name).mkdir()
        (tmp_path / name / "results.json").write_text(
            json.dumps({"accuracy": [row | {"low": accuracy - 0.01, "high": accuracy + 0.01}]})
        )
    assert sentence in report.compare([tmp_path / "worse", tmp_path / "better"])


@pytest.mark.parametrize("shape", [(0, 4), (1, 4), (3, 1), (40, 4)])
@pytest.mark.parametrize("value", [0.0, 1.0, np.nan])
def test_a_collapsed_or_diverged_embedding_is_still_a_page(value, shape, tmp_path):
    h, z = np.full(shape, value, dtype=np.float32), np.full((shape[0], 2), value, dtype=np.float32)
    pictures = np.zeros((shape[0], 1, 4, 4), dtype=np.uint8)
    labels = np.zeros(shape[0], dtype=np.int64)
    for extra in ({}, {"test_z1": z}):
        save_file(
            {"test_h": h, "test_labels": labels, "thumbnails": pictures, **extra}, tmp_path / "features.safetensors"
        )
        assert "How to repeat it" in report.page(tmp_path)


def test_neighbors_without_pictures_are_given_by_name(tmp_path):
    ring = np.arange(12) / 12 * 2 * np.pi
    h = np.stack([np.cos(ring), np.sin(ring), np.zeros(12)], axis=1).astype(np.float32)
    save_file({"test_h": h}, tmp_path / "features.safetensors")
    (tmp_path / "results.json").write_text(json.dumps({"names": [f"at {hour} o'clock" for hour in range(12)]}))
    first = report.page(tmp_path).split('class="neighbor-row"')[1]
    assert re.findall(r"at (\d+) o", first)[0] == "0"
    assert set(re.findall(r"at (\d+) o", first)[1:]) == {"11", "1", "10", "2"}


def test_the_comparison_shows_only_the_settings_that_differ(run, tmp_path):
    other = make_run(tmp_path / "other", seed=1)
    html = report.compare([run, other])
    differences = html[html.index('id="what-differs"') :]
    assert ">seed<" in differences
    assert "learning_rate" not in differences


def test_a_page_of_many_samples_stays_small(tmp_path):
    random = np.random.default_rng(0)
    features = {"test_h": random.normal(size=(3_000, 2)).astype(np.float32), "test_labels": np.arange(3_000) % 10}
    save_file(features, tmp_path / "features.safetensors")
    assert len(report.page(tmp_path)) < 3e5


def test_a_sprite_keeps_its_budget_by_showing_fewer():
    noise = np.random.default_rng(0).integers(0, 256, (200, 3, 16, 16), dtype=np.uint8)
    sprite = report.make_sprite(noise, budget=20_000)
    assert len(base64.b64decode(sprite.address.split(",")[1])) <= 20_000
    assert 0 < sprite.count < 200


def test_a_sprite_of_drawings_stays_exact_and_one_of_photos_is_a_jpeg():
    random = np.random.default_rng(0)
    photos = random.integers(0, 256, (100, 3, 16, 16), dtype=np.uint8)
    assert report.make_sprite(photos, budget=80_000).address.startswith("data:image/jpeg")
    assert report.make_sprite(photos // 255 * 255, budget=80_000).address.startswith("data:image/png")


def test_the_page_is_made_without_torch():
    code = "import sys, vergence.report; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# Its pieces


def test_a_page_is_composed_of_sections_and_an_empty_one_is_left_out():
    table = report.table(["claim", "verdict"], [["1 < 2", True], ["a & b", None]])
    html = report.document("Claims", "All hold.", [report.section("Exact", table), report.section("None", None)])
    assert html.count("<section") == 1
    for cell in ("1 &lt; 2", "yes", "a &amp; b", "–"):
        assert f">{cell}</t" in html


def test_principal_plane_keeps_everything_that_is_flat():
    random = np.random.default_rng(0)
    flat = random.normal(size=(300, 2)) @ random.normal(size=(2, 9))
    plane = report.principal_plane(flat)
    assert plane.explained == pytest.approx(1.0)
    assert plane.preserved == 1.0
    far = np.linalg.norm(flat[0] - flat[1])
    assert np.linalg.norm(plane.points[0] - plane.points[1]) == pytest.approx(far)


def clusters(n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    groups = random.integers(0, 8, n)
    return (3 * random.normal(size=(8, 20))[groups] + random.normal(size=(n, 20))).astype(np.float32), groups


def test_the_map_that_keeps_most_neighbors_is_chosen(monkeypatch):
    h, _ = clusters()
    monkeypatch.setattr(projection, "SLOW", 2000)
    found = projection.best_projection(h)
    shares = dict(found.tried)
    assert {"PCA", "PaCMAP", "t-SNE"} <= shares.keys()
    assert found.preserved == max(shares.values()) == preserved_neighbors(h - h.mean(0), found.points, neighbors=10)
    assert shares["PaCMAP"] > shares["PCA"]


def test_the_neighbor_map_keeps_groups_together_and_repeats_itself():
    h, groups = clusters()
    points = projection.neighbor_map(h)
    near = nearest(points, np.arange(len(h)), 5)
    assert (groups[near] == groups[:, None]).mean() > 0.98
    np.testing.assert_array_equal(points, projection.neighbor_map(h))


def test_the_steps_of_the_neighbor_map_follow_the_slope_of_its_loss():
    random = np.random.default_rng(0)
    y, pairs = random.normal(size=(30, 2)), random.integers(0, 30, (30, 7))
    near, reach = random.normal(size=7), random.uniform(1, 10, 7)

    def loss(y):
        distance = np.square(y[:, None] - y[pairs]).sum(axis=2) + 1
        return float((near * distance / (reach + distance)).sum())

    slope = approx_fprime(y.ravel(), lambda flat: loss(flat.reshape(y.shape)), 1e-6).reshape(y.shape)
    np.testing.assert_allclose(projection._gradient(y, pairs, 2 * near * reach, reach), slope, atol=1e-4)


def test_rows_that_were_not_laid_out_stand_among_their_nearest_landmarks(monkeypatch):
    h, groups = clusters(900)
    monkeypatch.setattr(projection, "LANDMARKS", 300)
    found = projection.best_projection(h)
    near = nearest(found.points, np.arange(len(h)), 5)
    assert (groups[near] == groups[:, None]).mean() > 0.9


def test_a_map_is_made_once_and_again_when_the_features_change(run, tmp_path, monkeypatch):
    other = make_run(tmp_path / "run")
    report.write(other)
    monkeypatch.setattr(maps, "best_projection", None)  # would fail if it were called
    assert maps.made(read(other)).projection.points.shape == (len(TEST), 2)
    sound = (other / maps.FILE).read_bytes()
    (other / maps.FILE).write_bytes(sound[:-3] + b"\x7f" + sound[-2:])  # one byte of a tensor
    with pytest.raises(TypeError):
        maps.made(read(other))
    (other / maps.FILE).write_bytes(sound)
    save_file({"test_h": np.ones((9, 3), np.float32)}, other / "features.safetensors")
    with pytest.raises(TypeError):
        maps.made(read(other))


def test_unrelated_points_preserve_neighbors_at_the_rate_of_chance():
    random = np.random.default_rng(0)
    share = preserved_neighbors(random.normal(size=(500, 16)), random.normal(size=(500, 2)), neighbors=50)
    assert share == pytest.approx(50 / 499, abs=0.01)


def test_nearest_agrees_with_sorting_every_distance():
    h = np.random.default_rng(0).normal(size=(200, 5))
    distances = np.linalg.norm(h[:, None] - h, axis=-1)
    np.testing.assert_array_equal(nearest(h, np.arange(150), 7), np.argsort(distances, axis=1)[:150, 1:8])


def test_density_of_directions_has_mean_one():
    angles = np.random.default_rng(0).normal(2.9, 0.2, 5000)
    axes = report.figures.circle_density(np.stack([np.cos(angles), np.sin(angles)], axis=1)).axes[0]
    degrees, density = axes.lines[0].get_data()
    assert density[:-1].mean() == pytest.approx(1.0)
    assert density[0] == pytest.approx(density[-1])
    assert degrees[np.argmax(density)] == pytest.approx(np.degrees(2.9), abs=6)


def test_a_sprite_holds_each_thumbnail_in_its_cell():
    pictures = np.random.default_rng(0).integers(0, 256, (90, 3, 5, 7), dtype=np.uint8)
    sprite = report.make_sprite(pictures)
    sheet = np.asarray(Image.open(io.BytesIO(base64.b64decode(sprite.address.split(",")[1]))))
    line, column = divmod(85, sprite.columns)
    cell = sheet[line * 5 : (line + 1) * 5, column * 7 : (column + 1) * 7]
    np.testing.assert_array_equal(cell, np.moveaxis(pictures[85], 0, -1))


def test_figures_follow_the_page_and_keep_their_identifiers_apart():
    curves = [svg(report.figures.spectrum(np.array([3.0, 2.0, last]))) for last in (1.0, 0.5)]
    for text in curves:
        assert "var(--accent)" in text
        assert not re.search(r"#[0-9a-f]{6}\b", text)
    first, second = (set(re.findall(r'\bid="([^"]+)"', text)) for text in curves)
    assert first
    assert not first & second


def contrast(one: str, other: str) -> float:
    """WCAG 2.1: the ratio of relative luminances, from 1 to 21."""

    def luminance(color: str) -> float:
        channels = np.array([int(color[start : start + 2], 16) for start in (1, 3, 5)]) / 255
        linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_text_and_marks_stand_out_from_the_paper(theme):
    paper = ROLES["paper"][theme]
    for name in ("ink", "quiet", "accent", "contrast", "good", "caution", "bad"):
        assert contrast(ROLES[name][theme], paper) >= 4.5, name
    for pair in CATEGORIES:
        assert contrast(pair[theme], paper) >= 3.0, pair


# In a real browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if CHROMIUM is None:
        pytest.skip("No Chromium: on Debian, apt-get install chromium")
    with Browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def pages(run, hostile, tmp_path_factory):
    """Every kind of page: a run, one on the circle, one with hostile names, one with next to nothing, a comparison."""
    folder = tmp_path_factory.mktemp("pages")
    circle = make_run(folder / "circle", dimensions=2)
    (folder / "bare").mkdir()
    (folder / "bare" / "config.yaml").write_text("method: simclr\n")
    compared = folder / "compared.html"
    compared.write_text(report.compare([run, circle, hostile]))
    named = {"run": run, "circle": circle, "hostile": hostile, "bare": folder / "bare"}
    return {name: report.write(directory) for name, directory in named.items()} | {"compared": compared}


# A pixel in the middle of a sample: opaque in all four directions, so that it is no edge and no letter.
SOME_SAMPLE = """(() => {
  const canvas = document.querySelector("canvas"), box = canvas.getBoundingClientRect();
  const { width, height } = canvas, pixels = canvas.getContext("2d").getImageData(0, 0, width, height).data;
  const full = (x, y) => pixels[4 * (y * width + x) + 3] > 150;
  for (let y = 30; y < height - 30; y++) for (let x = 30; x < width - 30; x++)
    if (full(x, y) && full(x + 1, y) && full(x - 1, y) && full(x, y + 1) && full(x, y - 1))
      return [box.x + 1 + x, box.y + 1 + y];
})()"""
TIP = """(() => {
  const tip = document.querySelector(".tip"), thumbnail = tip.querySelector(".thumbnail");
  const shown = !tip.hidden && getComputedStyle(thumbnail).display !== "none";
  const place = ["--column", "--line-number"].map((name) => Number(thumbnail.style.getPropertyValue(name)));
  return { shown, place, words: tip.querySelector(".words").textContent.split("\\n") };
})()"""


def assert_the_tip_shows_a_true_sample(tip: dict) -> None:
    number = int(tip["words"][0].removeprefix("sample "))
    assert tip["shown"]
    assert tip["words"][1] == f"class {TEST[number]}"
    assert tip["place"] == [number % 40, number // 40]


@pytest.mark.browser
@pytest.mark.parametrize(("width", "scheme"), [(375, "dark"), (375, "light"), (1280, "light")])
@pytest.mark.parametrize("name", ["run", "circle", "hostile", "bare", "compared"])
def test_every_page_opens_without_complaint(browser, pages, name, width, scheme):
    browser.open(pages[name], width=width, scheme=scheme)
    assert browser.complaints() == []
    assert browser.requests() == []
    assert browser.run("document.documentElement.scrollWidth") <= width
    background = browser.run("getComputedStyle(document.documentElement).backgroundColor")
    assert background == ("rgb(253, 253, 251)" if scheme == "light" else "rgb(19, 22, 29)")


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["run", "circle", "compared"])
def test_axe_finds_no_barrier(browser, pages, name, scheme):
    browser.open(pages[name], scheme=scheme)
    browser.run("document.querySelectorAll('details').forEach(fold => { fold.open = true; })")
    assert barriers(browser) == []


@pytest.mark.browser
def test_pictures_of_more_than_two_mebibytes_are_shown(browser, tmp_path):
    noise = np.random.default_rng(0).integers(0, 255, (600, 3, 64, 64)).astype(np.uint8)
    sprite = report.make_sprite(noise, budget=10**7)
    assert len(sprite.address) > 2**21  # above, Chromium drops the value of a custom property
    page = document("Many photographs", "A page.", [Section("Samples", sprite.thumbnail(0, "a sample"))], sprite=sprite)
    (tmp_path / "page.html").write_text(page)
    browser.open(tmp_path / "page.html")
    shown = "getComputedStyle(document.querySelector('.thumbnail')).backgroundImage.length"
    assert browser.run(shown) > 2**21


@pytest.mark.browser
def test_paper_is_white_whatever_the_screen(browser, pages):
    browser.open(pages["run"], width=760, scheme="dark", medium="print")
    assert browser.run("getComputedStyle(document.documentElement).backgroundColor") == "rgb(253, 253, 251)"
    assert browser.run("document.documentElement.scrollWidth") <= 760


@pytest.mark.browser
@pytest.mark.parametrize("name", ["run", "circle"])
def test_the_map_shows_the_sample_under_the_pointer(browser, pages, name):
    browser.open(pages[name])
    browser.run("document.querySelector('canvas').scrollIntoView({behavior: 'instant', block: 'center'})")
    browser.mouse(*browser.run(SOME_SAMPLE))
    assert_the_tip_shows_a_true_sample(browser.run(TIP))
    browser.mouse(5, 5)
    assert browser.run("document.querySelector('.tip').hidden")


@pytest.mark.browser
def test_the_map_shows_the_sample_under_a_finger(browser, pages):
    browser.open(pages["run"], width=375)
    browser.run("document.querySelector('canvas').scrollIntoView({behavior: 'instant', block: 'center'})")
    browser.touch(*browser.run(SOME_SAMPLE))
    assert_the_tip_shows_a_true_sample(browser.run(TIP))


@pytest.mark.browser
def test_the_map_can_be_walked_by_keyboard_and_is_read_aloud(browser, pages):
    browser.open(pages["run"])
    browser.run("document.querySelector('canvas').focus()")
    heard = []
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "ArrowLeft"):
        browser.press(key)
        assert_the_tip_shows_a_true_sample(browser.run(TIP))
        heard.append(browser.run("document.querySelector('.spoken').textContent"))
    assert len(set(heard)) >= 3
    browser.press("Escape")
    assert browser.run("document.querySelector('.tip').hidden")


@pytest.mark.browser
def test_a_class_chosen_in_the_legend_stands_out(browser, pages):
    browser.open(pages["run"])
    ink = """(() => {
      const canvas = document.querySelector("canvas"), pen = canvas.getContext("2d");
      const pixels = pen.getImageData(0, 0, canvas.width, canvas.height).data;
      return pixels.filter((value, i) => i % 4 === 3 && value > 100).length;
    })()"""
    before = browser.run(ink)
    browser.run("document.querySelector('.legend button').click()")
    browser.run(NEXT_FRAME)
    assert 0 < browser.run(ink) < before / 2
    assert browser.run("document.querySelector('.legend button').getAttribute('aria-pressed')") == "true"


NEXT_FRAME = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


@pytest.mark.browser
def test_the_map_is_colored_by_any_column(browser, pages):
    browser.open(pages["run"])
    names = browser.run("[...document.querySelectorAll('.by option')].map(option => option.textContent)")
    assert names[:3] == ["class", "cluster", "finding"]
    assert "similarity of its two views" in names
    for number, name in enumerate(names):
        browser.run(f"(() => {{ const by = document.querySelector('.by'); by.value = {number};"
                    "by.dispatchEvent(new Event('change')); })()")  # fmt: skip
        browser.run(NEXT_FRAME)
        shown = browser.run("[document.querySelectorAll('.legend button').length, !!document.querySelector('.ramp')]")
        assert shown[1] == (name not in ("class", "cluster", "finding")), name
    assert browser.complaints() == []


@pytest.mark.browser
def test_a_lasso_around_everything_lists_every_sample(browser, pages):
    browser.open(pages["run"])
    browser.run("document.querySelector('canvas').scrollIntoView({behavior: 'instant', block: 'center'})")
    browser.run("document.querySelector('.lasso').click()")
    x, y, wide, high = browser.run("(({x, y, width, height}) => [x, y, width, height])"
                                   "(document.querySelector('canvas').getBoundingClientRect())")  # fmt: skip
    corners = [(x + 2, y + 2), (x + wide - 2, y + 2), (x + wide - 2, y + high - 2), (x + 2, y + high - 2)]
    browser.send("Input.dispatchMouseEvent", type="mousePressed", x=x + 2, y=y + 2, button="left", clickCount=1)
    for corner in corners:
        browser.send("Input.dispatchMouseEvent", type="mouseMoved", x=corner[0], y=corner[1], button="left", buttons=1)
    browser.send("Input.dispatchMouseEvent", type="mouseReleased", x=x + 2, y=y + high - 2, button="left")
    lines = browser.run("document.querySelector('.selected textarea').value").split("\n")
    assert len(lines) == len(TEST)
    assert {int(line.split("\t")[0].removeprefix("sample ")) for line in lines} == set(range(len(TEST)))


@pytest.mark.browser
def test_the_map_zooms_about_the_pointer_and_comes_back(browser, pages):
    browser.open(pages["run"])
    browser.run("document.querySelector('canvas').scrollIntoView({behavior: 'instant', block: 'center'})")
    spot = browser.run(SOME_SAMPLE)
    browser.mouse(*spot)
    number = browser.run(TIP)["words"][0]
    browser.run("document.querySelector('canvas').focus()")
    place = dict(zip(("x", "y"), spot, strict=True))
    browser.send("Input.dispatchMouseEvent", type="mouseWheel", **place, deltaX=0, deltaY=-300)
    browser.run(NEXT_FRAME)
    browser.mouse(spot[0] + 1, spot[1])
    browser.mouse(*spot)
    assert browser.run(TIP)["words"][0] == number
    browser.run("document.querySelector('.whole').click()")
    browser.run(NEXT_FRAME)
    assert browser.run(SOME_SAMPLE) == spot


@pytest.mark.browser
def test_no_foreign_script_runs_on_the_page(browser, pages):
    browser.open(pages["hostile"])
    browser.run(
        """document.body.append(Object.assign(document.createElement("script"), {textContent: "window.ran = 1"}))"""
    )
    browser.run("""document.body.insertAdjacentHTML("beforeend", "<img src=data:, onerror='window.ran = 1'>")""")
    browser.run("new Promise(done => setTimeout(done, 100))")
    assert browser.run("window.ran") is None


@pytest.mark.parametrize(("low", "word"), [(0.01, "learning"), (-0.01, "not started")])
def test_a_certain_gain_outvotes_a_loss_that_shows_nothing_yet(low, word):
    gain = Gain("untrained encoder", "linear probe", first=0.55, second=0.5, low=low, high=0.09, n=90)
    assert badge(Results(verdict=Verdict("not started", "No better than unrelated views."), gains=(gain,))) == word

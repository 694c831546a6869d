"""Runs on texts from end to end: judged, mined, exported and read again."""

import math
import shutil

import numpy as np
import pytest
import torch

import vergence
from vergence import features
from vergence.data.tokens import available
from vergence.diagnostics import diagnose
from vergence.runs import assembly, results, sentences
from vergence.runs.run import Run
from vergence.stages import train
from vergence.stages.compare import compare
from vergence.stages.export import export
from vergence.stages.mine import mine

pytestmark = pytest.mark.skipif(not available(), reason="needs tokenizers")

WORDS = "sea ship whale captain storm wind night lamp door letter house garden tree river stone".split()  # noqa: SIM905


def sentence(draw, topic):
    return " ".join(draw.choice(WORDS[topic * 5 : topic * 5 + 5], draw.integers(3, 9)))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    home, draw = tmp_path_factory.mktemp("texts"), np.random.default_rng(0)
    (home / "corpus.tsv").write_text("\n".join(f"b{i // 100}\t{sentence(draw, i // 20 % 3)}" for i in range(300)))
    scored = [f"{5 * (i % 2)}\t{sentence(draw, 0)}\t{sentence(draw, 0 if i % 2 else 1)}" for i in range(40)]
    (home / "sts.tsv").write_text("score\tsentence1\tsentence2\n" + "\n".join(scored))
    (home / "pairs.tsv").write_text("\n".join(f"{sentence(draw, i % 3)}\t{sentence(draw, i % 3)}" for i in range(60)))
    (home / "labels.tsv").write_text("\n".join(f"t{i % 3}\t{sentence(draw, i % 3)}" for i in range(90)))
    evaluate = (f"pairs:{home}/sts.tsv", f"pairs:{home}/pairs.tsv", f"text:{home}/labels.tsv,folds=3")
    options = {"method": "align_uniform", "encoder": "bag", "backbone": {"width": 16}, "heads": {"projector": ()}}
    options |= {"epochs": 3, "batch": 32, "track": (), "watching": {"every": 0}, "evaluate": evaluate}
    told = vergence.train(data=f"text:{home}/corpus.tsv,pairs=next", run=home / "run", quiet=True, **options)
    (home / "told.txt").write_text(str(told))
    return home


def test_a_run_is_judged_beside_what_needs_no_training(place):
    rows = results.read(place / "run").sentences
    assert {row.features for row in rows} == {
        "trained encoder", "untrained encoder", sentences.AVERAGED, sentences.WORDS,
    }  # fmt: skip
    measures = {(row.data.split("/")[-1], row.measure) for row in rows if row.features == sentences.WORDS}
    assert {
        ("sts.tsv", "Spearman"),
        ("pairs.tsv", "MRR"),
        ("labels.tsv,folds=3", "accuracy, 3 nested folds"),
    } <= measures
    assert all(row.low <= row.value <= row.high for row in rows)


def test_the_bar_stands_beside_every_result_on_console_page_and_comparison(place):
    told = [line for line in (place / "told.txt").read_text().split("\n") if "trained encoder" in line]
    assert [line.split(",")[0].split("/")[-1] for line in told[:3]] == ["sts.tsv", "pairs.tsv", "labels.tsv"]
    assert all("TF-IDF" in line for line in told[:3])
    assert "TF-IDF" in (place / "run" / "report.html").read_text()
    cells = compare((place / "run",)).values["runs"][str(place / "run")]
    for row in ("TF-IDF", "untrained encoder", "averaged word vectors"):
        assert f"pairs:{place}/sts.tsv, Spearman of {row}" in cells
        assert f"pairs:{place}/pairs.tsv, MRR of {row}" in cells


def test_the_doctor_of_a_run_does_not_need_what_it_was_evaluated_on(place, tmp_path):
    shutil.copytree(place / "run", tmp_path / "run")
    config = (tmp_path / "run" / "config.yaml").read_text()
    (tmp_path / "run" / "config.yaml").write_text(config.replace(f"pairs:{place}/", "pairs:elsewhere/"))
    vergence.doctor(tmp_path / "run")
    assert results.read(tmp_path / "run").sentences == results.read(place / "run").sentences


def test_evaluation_data_are_read_before_training(place):
    (place / "wrong.tsv").write_text("score\tsentence1\tsentence2\n" + "6\ta b\tc d\n" * 5)
    options = {"encoder": "bag", "batch": 32, "quiet": True, "evaluate": (f"pairs:{place}/wrong.tsv",)}
    with pytest.raises(ValueError, match=r"wrong.tsv, line 2: the score 6 is outside of 0 to 5"):
        vergence.train(data=f"text:{place}/corpus.tsv,pairs=next", run=place / "never", **options)
    assert not (place / "never").exists()


def test_the_untrained_row_is_the_encoder_before_the_first_step(place):
    run = Run(place / "run")
    parts = assembly.assemble(run.config, tokens=assembly.tokens_of(run))
    _, recipe, facts = assembly.trained_encoder(run)
    again = sentences.untrained(run.config, recipe, facts, sentences._stored(run.path / "baselines.safetensors"))
    expected = parts.learner.encoder.state_dict()
    assert all(torch.equal(value, expected[name]) for name, value in again.state_dict().items())


def test_a_loaded_run_reads_texts_with_the_tokenizer_that_it_stored(place):
    encoder = vergence.load(place / "run")
    assert (place / "run" / "tokenizer.json").is_file()
    h = encoder.encode(["captain of the whale ship", "lamp"])
    assert h.shape == (2, 16)
    np.testing.assert_allclose(encoder.encode("lamp"), h[1:], rtol=1e-6)


def test_the_page_shows_sentences(place):
    page = (place / "run" / "report.html").read_text()
    assert any(word in page for word in WORDS)


def test_mining_writes_triples_that_can_be_trained_on(place):
    told = mine(place / "run", f"pairs:{place}/pairs.tsv", output=place / "mined.tsv", margin=0.0)
    header, *lines = (place / "mined.tsv").read_text().strip().split("\n")
    assert header == "anchor\tpositive\tnegative_1"
    assert len(lines) == told.values["pairs"]
    assert all(negative not in (anchor, positive) for anchor, positive, negative in (x.split("\t") for x in lines))
    assert 0 <= told.values["false_share"] <= 1
    options = {"encoder": "bag", "backbone": {"width": 8}, "epochs": 1, "batch": 8, "track": (), "quiet": True}
    vergence.train(data=f"pairs:{place}/mined.tsv", method="simcse", run=place / "hard", overwrite=True, **options)
    assert Run(place / "hard").config.view["negatives"] == 1
    assert results.read(place / "hard").thermometer.chance == pytest.approx(np.log(8 * 2))


def test_what_a_text_is_paired_with_anywhere_is_no_negative_of_it(place):
    """The anchor's other positive is nearer to it than anything else, and so is the anchor that it is a positive of."""
    rows = ["sea ship\tship sea", "sea ship\tsea ship sea ship", "sea sea ship ship\tsea ship", "lamp door\tdoor lamp"]
    (place / "twice.tsv").write_text("\n".join([*rows, "tree river\triver tree"]))
    mine(place / "run", f"pairs:{place}/twice.tsv", output=place / "mined_twice.tsv", margin=-2.0)
    _, *lines = (place / "mined_twice.tsv").read_text().strip().split("\n")
    found = [line.split("\t") for line in lines]
    assert len(found) == 5
    assert not [negative for anchor, _, negative in found if anchor == "sea ship" and "sea" in negative]


def test_an_exported_bag_is_read_as_a_folder_of_sentence_transformers(place):
    export(place / "run", form="sentence-transformers", output=place / "folder")
    texts = ["the captain", "a stone in the garden", "word " * 200]
    np.testing.assert_allclose(
        vergence.load(place / "folder").encode(texts[:2]), vergence.load(place / "run").encode(texts[:2]), atol=1e-6
    )
    told = vergence.doctor(place / "folder", evaluate=(f"pairs:{place}/sts.tsv",))
    assert {row["features"] for row in told.values["sentences"]} >= {"trained encoder", sentences.WORDS}
    written = vergence.embed(place / "folder", (str(place / "labels.tsv"),), output=place / "h.npy", quiet=True)
    assert written.values["n"] == 90


@pytest.mark.parametrize("form", ["run", "folder"])
def test_training_goes_on_from_a_run_or_a_folder_with_its_own_tokenizer(place, form):
    """Other texts would train another tokenizer, whose numbers stand for other words: the vectors would be noise."""
    if form == "folder":
        export(place / "run", form="sentence-transformers", output=place / "folder")
    (place / "other.tsv").write_text("\n".join(f"b\t{word} the lamp zebra {i}" for i, word in enumerate(WORDS * 4)))
    options = {"method": "align_uniform", "heads": {"projector": ()}, "batch": 16, "start": str(place / form)}
    parts = assembly.assemble(vergence.config.given(data=f"text:{place}/other.tsv,pairs=next", **options))
    texts = ["the captain", "a stone in the garden"]
    made = sentences.Reader(parts.learner.encoder, parts.samples.tokens, 64)(texts)
    np.testing.assert_allclose(made, vergence.load(place / "run").encode(texts), atol=1e-6)


def test_of_a_corpus_features_of_some_sentences_are_kept_and_named(place, tmp_path, monkeypatch):
    monkeypatch.setattr(train, "KEPT_TEXTS", 20)
    options = {"encoder": "bag", "epochs": 1, "batch": 32, "track": (), "quiet": True}
    vergence.train(data=f"text:{place}/corpus.tsv,pairs=next", run=tmp_path / "run", **options)
    kept = features.read(tmp_path / "run" / "features.safetensors", "test")
    assert len(kept.h) == len(kept.z1) == len(kept.rows) == 20
    test = assembly.load(Run(tmp_path / "run").config, "test")
    encode = vergence.load(tmp_path / "run").encode
    np.testing.assert_allclose(encode([test.names[row] for row in kept.rows.tolist()]), kept.h, atol=1e-5)
    assert (tmp_path / "run" / "report.html").stat().st_size > 10_000


def test_what_cannot_be_evaluated_is_said(place):
    with pytest.raises(ValueError, match=r"pairs:FILE \(scored, or to be found\) or text:FILE"):
        vergence.doctor(place / "run", evaluate=("digits",))
    (place / "plain.txt").write_text("a\nb\n")
    with pytest.raises(ValueError, match="no labels to classify"):
        vergence.doctor(place / "run", evaluate=(f"text:{place}/plain.txt",))


def embedded(offset, seed=0):
    draw = np.random.default_rng(seed)
    h = draw.standard_normal((600, 32)).astype(np.float32)
    words = torch.from_numpy(np.stack([draw.normal(2, 1, 600), draw.normal(5, 1, 600)], 1).astype(np.float32))
    return h + offset * np.eye(32, dtype=np.float32)[0], words


def test_texts_that_point_one_way_are_called_anisotropic():
    h, words = embedded(8.0)
    assert "anisotropy" in diagnose(h, words=words).faults
    h, words = embedded(0.0)
    assert "anisotropy" not in diagnose(h, words=words).faults


def test_texts_that_coincide_are_collapsed_if_their_differences_are_noise_and_else_share_a_constant():
    h, words = embedded(0.0)
    constant = 1000 * np.ones_like(h)
    told = diagnose(constant + 0.1 * h, words=words)
    assert (told.verdict.label, told.faults) == ("collapsed", ("complete collapse",))
    meaning = np.concatenate([words.numpy(), 0.01 * h[:, 2:]], 1)  # directions that follow the words
    assert diagnose(constant + meaning.astype(np.float32), words=words).faults == ("anisotropy",)


def test_texts_of_few_words_are_not_collapsed_for_what_words_cannot_fill():
    h, words = embedded(0.0)
    h = h @ np.random.default_rng(1).standard_normal((32, 256)).astype(np.float32)
    few = torch.cat([words, torch.full((600, 1), 33.0).log()], 1)
    many = torch.cat([words, torch.full((600, 1), 5000.0).log()], 1)
    told = [diagnose(h, words=known, objective="nt_xent", loss=1.0, batch=64).faults for known in (few, many)]
    assert ["dimensional collapse" in faults for faults in told] == [False, True]
    facts = sentences.word_facts(["a b c", "a b", "c d"])
    np.testing.assert_allclose(facts[:, 2], math.log(4))


def test_neighbors_by_length_are_found():
    h, words = embedded(0.0)
    angle = words[:, :1].numpy() / 2
    by_length = np.concatenate([0.01 * h, np.cos(angle), np.sin(angle)], 1)
    assert "length bias" in {each.fault for each in diagnose(by_length, words=words).findings}
    assert "length bias" not in {each.fault for each in diagnose(h, words=words).findings}

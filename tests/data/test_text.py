"""Tokens, consecutive sentences, pairs of texts, and files that are not what they should be."""

import gzip
import pickle
import tracemalloc

import numpy as np
import pytest
import torch

from vergence.counters import shuffled
from vergence.data import load, numbers
from vergence.data.numbers import Numbers
from vergence.data.pairs import scored
from vergence.data.ragged import Ragged
from vergence.data.tokens import available, from_json, hashed, wordpiece

trains = pytest.mark.skipif(not available(), reason="needs tokenizers")

BOOKS = "\n".join(f"{book}\t{book} sentence {number}" for book in ("one", "two", "three") for number in range(40))


def write(path, content):
    path.write_text(content, encoding="utf-8")
    return path


# Tokens


@trains
def test_training_a_tokenizer_twice_gives_the_same_file():
    texts = [f"the captain said {word} to number {i}" for i, word in enumerate(["aye", "never", "perhaps", "so"] * 50)]
    first, second = wordpiece(texts, 200), wordpiece(texts, 200)
    assert first.content == second.content
    assert first.vocabulary <= 200


@trains
def test_a_trained_tokenizer_leaves_0_to_padding_and_reads_words_it_never_saw():
    tokens = wordpiece(["the whale and the sea"] * 3, 60)
    rows = tokens.encode(["the sea", "hawthorne!", "\x00\x01", ""], 8)
    assert rows[0] == tokens.encode(["THE Sea"], 8)[0]
    assert all(0 < token < tokens.vocabulary for row in rows for token in row)
    assert rows[2] == rows[3] == [1]  # nothing to read is one unknown token


@trains
def test_numbers_of_a_tokenizer_without_padding_move_up_by_one():
    library = pytest.importorskip("tokenizers")
    made = library.Tokenizer(library.models.WordLevel({"a": 0, "b": 1, "?": 2}, unk_token="?"))
    made.pre_tokenizer = library.pre_tokenizers.Whitespace()
    assert from_json(made.to_str(), name="x").encode(["a b a"], 8) == [[1, 2, 1]]
    with pytest.raises(ValueError, match=r"here\.json: this is no tokenizer\.json"):
        from_json("{}", name="here.json")


def test_a_text_of_a_million_characters_is_cut_before_it_is_read():
    rows = hashed("word").encode(["word " * 200_000, "x" * 1_000_000], 16)
    assert [len(row) for row in rows] == [16, 1]


@pytest.mark.parametrize("by_line", [False, True])
def test_a_file_with_a_text_that_is_read_in_part_says_which_line_it_is(tmp_path, by_line):
    texts = [f"text number {number}" for number in range(40)]
    texts[17] = "long " * 200_000
    path = write(tmp_path / "texts.txt", "\n".join(texts))
    said = load(f"text:{path},by_line={str(by_line).lower()}", split="train").remarks
    assert said == (
        "Only the first 64 tokens (length=64) are read of 1 of 40 texts: line 18; the longest is line 18 with "
        "1,000,000 characters."
    )
    write(path, "short\n" * 40)
    assert load(f"text:{path}", split="train").remarks == ""


def test_a_file_with_control_characters_says_which_lines_have_them(tmp_path):
    texts = [f"text number {number}" for number in range(40)]
    texts[3], texts[30] = "a\x00b", "\x1b[31mred"
    said = load(f"text:{write(tmp_path / 'texts.txt', chr(10).join(texts))}", split="train").remarks
    assert said == "Control characters are read as spaces: lines 4, 31."


def test_a_text_of_just_as_many_tokens_as_are_read_is_not_cut(tmp_path):
    path = write(tmp_path / "texts.txt", "\n".join(["a b c"] * 20 + ["a b c d"]))
    assert load(f"text:{path},length=4", split="train").remarks == ""
    assert "texts: line 21;" in load(f"text:{path},length=3", split="train").remarks


@trains
def test_a_tokenizer_is_trained_as_if_a_word_of_a_million_letters_were_not_there():
    texts = ["the whale and the sea", "a captain of the sea"]
    long = ["x" * 1_000_000, "the sea " + "ab" * 500_000]
    assert wordpiece([*texts, "the sea", *long], 60).content == wordpiece([*texts, "the sea", "the sea"], 60).content


def test_rows_of_different_lengths_are_padded_to_the_longest_of_the_batch():
    rows = Ragged.of(["a b c", "a", "b c"], hashed("word"), 8)
    x = rows[torch.tensor([1, 2])]
    assert x.shape == (2, 2)
    assert x[0].tolist() == [rows[torch.tensor([0])][0, 0].item(), 0]
    assert torch.equal(rows.take(torch.tensor([2, 0]))[torch.tensor([0])], rows[torch.tensor([2])])


def test_documents_are_counted_once_for_each_text_with_the_token():
    tokens = hashed("word")
    rows = Ragged.of(["a a b", "a", "c"], tokens, 8)
    counts, texts = rows.document_counts(tokens.vocabulary)
    a, b, c = (tokens.encode([word], 1)[0][0] for word in "abc")
    assert (counts[a], counts[b], counts[c], texts, counts.sum()) == (2, 1, 1, 3, 4)


# Consecutive sentences


@pytest.mark.parametrize("split", ["train", "test", "all"])
def test_a_sentence_is_paired_with_the_next_one_of_its_own_document(tmp_path, split):
    path = write(tmp_path / "books.tsv", BOOKS)
    samples = load(f"text:{path},pairs=next", split=split)
    tokens = samples.tokens
    everything = torch.arange(len(samples))
    after = samples.beside["positive"][everything]
    for name, row in zip(samples.names, after, strict=True):
        book, _, number = name.split()
        expected = tokens.encode([f"{book} sentence {int(number) + 1}"], 64)[0]
        assert row[row != 0].tolist() == expected
    assert len(samples) == {"all": 117}.get(split, len(samples))


def test_no_sentence_is_in_the_training_and_the_test_part(tmp_path):
    path = write(tmp_path / "books.tsv", BOOKS)
    seen = {}
    for split in ("train", "test"):
        samples = load(f"text:{path},pairs=next", split=split)
        rows = [samples.x[torch.arange(len(samples))], samples.beside["positive"][torch.arange(len(samples))]]
        seen[split] = {tuple(row[row != 0].tolist()) for part in rows for row in part}
    assert not seen["train"] & seen["test"]


def test_empty_lines_divide_documents_where_no_column_does(tmp_path):
    path = write(tmp_path / "a.txt", "a 1\na 2\n\nb 1\nb 2\nb 3\n")
    assert sorted(load(f"text:{path},pairs=next", split="all").names) == ["a 1", "b 1", "b 2"]


def test_documents_of_one_sentence_have_no_pairs(tmp_path):
    path = write(tmp_path / "a.tsv", "x\ta\ny\tb\nz\tc\n")
    with pytest.raises(ValueError, match=r"no two consecutive sentences of one document; sentences: 3, documents: 3"):
        load(f"text:{path},pairs=next")


def test_a_corpus_of_one_document_is_divided_too(tmp_path):
    path = write(tmp_path / "a.txt", "\n".join(f"sentence {i}" for i in range(100)))
    parts = [len(load(f"text:{path},pairs=next", split=split)) for split in ("train", "test")]
    assert min(parts) > 5
    assert sum(parts) < 99  # neighbors on both sides of a border are no pair


# Lines that stay in their file


def test_a_file_read_by_line_gives_what_it_gives_in_memory(tmp_path):
    path = write(tmp_path / "books.tsv", "\ufeff" + BOOKS.replace("one sentence 3", "öne sentence 3"))
    held, read = (load(f"text:{path},pairs=next{option}") for option in ("", ",by_line=true"))
    rows = torch.tensor([0, 7, 3])
    assert torch.equal(held.x[rows], read.x[rows])
    assert torch.equal(held.beside["positive"][rows], read.beside["positive"][rows])
    assert [held.names[i] for i in (0, 7)] == [read.names[i] for i in (0, 7)]
    assert torch.equal(held.x.document_counts(32768)[0], read.x.document_counts(32768)[0])


@pytest.mark.parametrize(("option", "before"), [(",pairs=next", "book"), ("", "the")])
def test_memory_of_a_file_read_by_line_does_not_grow_with_its_lines(tmp_path, monkeypatch, option, before):
    monkeypatch.setattr(numbers, "STRETCH", 512)
    peaks, gap = [], "\t" if option else " "
    for count in (1_000, 2_000, 12_000):  # the first one imports what is needed
        texts = (f"{before} {number // 1000}{gap}sentence {number}\n" for number in range(count))
        path = write(tmp_path / f"{count}.tsv", "".join(texts))
        tracemalloc.start()
        samples = load(f"text:{path},by_line=true{option}")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert len(samples) > 0.7 * count
        assert len(samples.x[torch.arange(3)]) == 3
    # Without pairs, the lines of a part are drawn: a byte each and the number of each drawn one. A list has 8 a line.
    assert peaks[2] - peaks[1] < (2 if option else 12) * 10_000


def test_numbers_in_a_file_are_read_as_an_array_is(monkeypatch):
    monkeypatch.setattr(numbers, "STRETCH", 3)
    values = np.arange(20) ** 2
    kept = Numbers()
    for value in values.tolist():
        kept.append(value)
    places = np.array([3, 19, 0, 3])
    assert (len(kept), kept[-1], list(kept), kept.pair(4)) == (20, 361, values.tolist(), (16, 25))
    np.testing.assert_array_equal(kept[places], values[places])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(kept))[5:9], values[5:9])
    np.testing.assert_array_equal(np.concatenate([own for _, own in numbers.stretches(kept)]), values)
    together = np.arange(0, 3000, 2)
    np.testing.assert_array_equal(numbers.shuffled(np.split(together, 5))[:], shuffled(torch.from_numpy(together)))


def test_lines_of_a_packed_file_cannot_be_found(tmp_path):
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"a\nb\n"))
    with pytest.raises(ValueError, match="unpack it"):
        load(f"text:{tmp_path}/a.txt.gz,by_line=true")


# Pairs


def test_pairs_and_triples_by_name_or_by_order(tmp_path):
    named = write(tmp_path / "a.tsv", "negative\tquery\tpositive\nn\ta\tp\nm\tb\tq\n")
    plain = write(tmp_path / "b.tsv", "a\tp\tn\tk\nb\tq\tm\tl\n")
    samples, wider = load(f"pairs:{named}", split="all"), load(f"pairs:{plain}", split="all")
    assert (list(samples.beside), samples.names) == (["positive", "negative_1"], ["a", "b"])
    assert list(wider.beside) == ["positive", "negative_1", "negative_2"]
    both = torch.arange(2)
    for field in samples.beside:
        assert torch.equal(samples.beside[field][both], wider.beside[field][both])


def test_scored_pairs_are_positives_from_a_score_on(tmp_path):
    path = write(tmp_path / "a.tsv", "score\tsentence1\tsentence2\n4.5\ta\tb\n1\tc\td\n4\te\tf\n")
    assert load(f"pairs:{path},above=4", split="all").names == ["a", "e"]
    with pytest.raises(ValueError, match="has scores: say which pairs are positives"):
        load(f"pairs:{path}")


def test_evaluation_pairs_keep_their_part_their_scores_and_their_sets(tmp_path):
    path = write(tmp_path / "a.tsv", "split\tyear\tscore\tsentence1\tsentence2\ntest\t12\t2\ta\tb\ndev\t13\t1\tc\td\n")
    found = scored(str(path))
    assert (found.first, found.second, found.sets.tolist()) == (["a"], ["b"], ["12"])
    np.testing.assert_array_equal(found.scores, [2.0])
    assert len(scored(str(path), part="all").first) == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("anchor\tnegative\na\tb\n", "line 1: there is no column positive"),
        ("anchor\tpositive\na\n", "line 2: 1 column, but the first line has 2"),
        ("anchor\tpositive\na\tb\n\nc\t \n", "line 4: the column positive is empty"),
        ("score\tsentence1\tsentence2\n7\ta\tb\n", "line 2: the score 7 is outside of 0 to 5"),
        ("score\tsentence1\tsentence2\nnan\ta\tb\n", "line 2: the score nan is outside"),
        ("score\tsentence1\tsentence2\nhigh\ta\tb\n", "line 2: the score 'high' is not a number"),
        ("alone\n", "pairs take two or more"),
    ],
)
def test_pairs_that_make_no_sense_are_explained_with_their_line(tmp_path, content, message):
    path = write(tmp_path / "a.tsv", content)
    with pytest.raises(ValueError, match=message):
        load(f"pairs:{path},above=1" if "score" in content else f"pairs:{path}")


def test_a_file_in_utf_16_is_recognized(tmp_path):
    (tmp_path / "a.txt").write_bytes("eins\nzwei\n".encode("utf-16"))
    with pytest.raises(ValueError, match=r"every other byte of line 1 is 0, as in UTF-16"):
        load(f"text:{tmp_path}/a.txt")

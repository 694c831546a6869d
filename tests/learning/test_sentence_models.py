"""Folders of sentence-transformers: what a bag becomes there."""

import json

import pytest
import torch

from vergence.data.tokens import available, wordpiece
from vergence.encoders import build
from vergence.learning.sentence_models import OURS, read_folder, write_folder

pytestmark = pytest.mark.skipif(not available(), reason="needs tokenizers")


@pytest.mark.parametrize(
    ("more", "own"),
    [({}, False), ({"once": True}, True), ({"plain": 2.0, "common": 5}, False), ({"plain": 2.0, "opening": 3}, True)],
)
def test_a_bag_that_the_library_would_count_otherwise_is_written_with_our_module(tmp_path, more, own):
    tokens = wordpiece(["the whale and the sea and the ship"] * 3, 60)
    encoder = build("bag", (9,), vocabulary=tokens.vocabulary, width=4, **more).eval()
    options = {"vocabulary": tokens.vocabulary, "width": 4, **more}
    modules = write_folder(tmp_path / "folder", encoder, tokens, 9, "bag", options)
    assert (modules == [OURS]) is own
    assert [each["type"] for each in json.loads((tmp_path / "folder" / "modules.json").read_text())] == modules
    again, theirs, length = read_folder(str(tmp_path / "folder"))
    texts = ["the sea the sea", "a ship"]
    rows = [torch.tensor([row]) for row in tokens.encode(texts, 9)]
    others = [torch.tensor([row]) for row in theirs.encode(texts, min(length, 9))]
    for mine, other in zip(rows, others, strict=True):
        torch.testing.assert_close(again(other), encoder(mine))

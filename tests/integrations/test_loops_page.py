"""docs/loops.md shows the snippets that the tests of exports run."""

from pathlib import Path

import pytest

from vergence.integrations.exports import SUFFIXES
from vergence.integrations.exports.card import SNIPPETS, snippet

PAGE = Path(__file__).parents[2] / "docs" / "loops.md"


@pytest.mark.parametrize("form", SNIPPETS)
def test_the_page_has_the_snippet_of_every_form(form):
    if form in SUFFIXES or form == "hf":
        assert snippet(form, f"encoder{SUFFIXES.get(form, f'-{form}')}") in PAGE.read_text()

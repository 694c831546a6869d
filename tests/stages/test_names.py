"""Every verb can be called from Python, under its own name or, where a room has that name, under another."""

import vergence
from vergence.stages import STAGES

OTHER = {"views": "rank_views", "information": "estimate", "report": "write_report"}


def test_every_verb_is_a_function_of_vergence():
    missing = [
        verb for verb in STAGES if verb != "list" and not callable(getattr(vergence, OTHER.get(verb, verb), None))
    ]
    assert missing == []

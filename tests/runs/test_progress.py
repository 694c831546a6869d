"""What is told of work that takes a while."""

import pytest

from vergence.runs.progress import Progress


@pytest.mark.parametrize(
    ("then", "told"), [("", " are left.\n"), ("the assessment", " are left; the assessment follows.\n")]
)
def test_what_is_left_is_estimated_once_with_what_follows_if_anything_does(capsys, then, told):
    with Progress(100, then=then) as bar:
        for _ in range(20):
            bar.advance(1)
    lines = [line for line in capsys.readouterr().err.splitlines(keepends=True) if line.startswith("About")]
    assert len(lines) == 1
    assert lines[0].endswith(told)

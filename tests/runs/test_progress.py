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


def test_the_last_line_names_what_was_counted_and_no_speed_where_no_samples_were_told(capsys):
    with Progress(1, unit="claim") as bar:
        bar.advance()
    assert capsys.readouterr().err.startswith("claim 1/1 · 0 s left")

"""Results in a terminal: every sentence once, and what to do about each fault."""

import torch

import vergence as vg


def spoiled_rows() -> tuple[torch.Tensor, torch.Tensor]:
    """Clouds of five classes: a third of the rows occurs twice, and every ninth label is another one."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(400) % 5
    h = torch.randn(5, 48, generator=generator)[labels] + torch.randn(400, 48, generator=generator)
    h = torch.cat([h[:300], h[:100]])
    labels = torch.cat([labels[:300], labels[:100]])
    labels[::9] = (labels[::9] + 1) % 5
    return h, labels


def test_what_a_line_says_no_other_repeats_and_every_fault_has_its_advice():
    h, labels = spoiled_rows()
    answer = vg.doctor(h, labels=labels)
    text, findings = "\n".join(answer.lines), answer.to_dict()["findings"]
    assert len(findings) > 1
    for finding in findings:
        assert text.count(finding["sentence"]) == 1
        assert finding.get("level", "fault") != "fault" or text.count(finding["advice"]) == 1


def test_what_was_not_examined_says_what_is_missing():
    (line,) = [line for line in vg.doctor(torch.randn(60, 8)).lines if line.startswith("pairs")]
    assert line == "pairs     not examined: There are no labels or second views."

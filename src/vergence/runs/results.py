"""What a stage found: lines for a person, values for a program."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Answer:
    """What a stage found: lines for a person, values for a program, and whether a pipeline should stop."""

    lines: tuple[str, ...]
    values: dict[str, Any]
    failed: bool = False

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def to_dict(self) -> dict[str, Any]:
        return self.values

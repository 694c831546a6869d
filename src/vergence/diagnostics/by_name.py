"""Arguments filled by name: a row of a table asks for what it needs in its signature, and gets it if it is there.

``h``, ``z1``, ``z2``, ``labels``, ``seed`` and the objective's options are given; what several rows need (a sample of
the rows, its neighbors, the sums over all rows) is derived once, at first use, by a function of ``derived`` that asks
for its own arguments in the same way. So a new row is a function and a line in a table.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Maker = Callable[..., Any]


@dataclass
class Given:
    """Values by name, and how to derive more. A value of None counts as not given."""

    values: dict[str, Any]
    derived: Mapping[str, Maker] = field(default_factory=dict)

    def __contains__(self, name: str) -> bool:
        if self.values.get(name) is not None:
            return True
        return name not in self.values and name in self.derived and self.has_all_for(self.derived[name])

    def __getitem__(self, name: str) -> Any:
        if name not in self.values:
            self.values[name] = self.call(self.derived[name])
        return self.values[name]

    def get(self, name: str) -> Any:
        """The value, or None where it cannot be had."""
        return self[name] if name in self else None  # noqa: SIM401

    def has_all_for(self, function: Maker) -> bool:
        """Whether every argument without a default is there. Deriving may show that a thing does not apply: None."""
        return all(name in self for name in needed(function)) and all(
            self[name] is not None for name in needed(function)
        )

    def call(self, function: Maker) -> Any:
        """The function of what it asks for; arguments with a default are filled where they are known."""
        return function(**{name: self[name] for name in _asked(function) if name in self})


def needed(function: Maker) -> tuple[str, ...]:
    """The names of the arguments that a function cannot do without."""
    empty = inspect.Parameter.empty
    return tuple(name for name, parameter in _asked(function).items() if parameter.default is empty)


def _asked(function: Maker) -> dict[str, inspect.Parameter]:
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = inspect.signature(function).parameters
    return {name: parameter for name, parameter in parameters.items() if parameter.kind in kinds}

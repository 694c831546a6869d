"""``vergence list``: what there is to choose from."""

from vergence import tables
from vergence.methods import METHODS
from vergence.runs.results import Answer

# Every table that is a person's choice.
LISTED = ("methods", "objectives", "encoders", "views", "data", "diagnostics", "estimators", "trackers")


def list(names: tuple[str, ...] = ()) -> Answer:
    """Print what there is to choose from: methods, objectives, encoders, views, data and more; with installed rows."""
    for name in names:
        if name not in LISTED:
            raise tables.UnknownName("table", name, LISTED)
    found = {name: rows(name) for name in names or LISTED}
    lines: tuple[str, ...] = ()
    for name, own in found.items():
        width = max(map(len, own))
        lines += (name.upper(), *(f"  {row:{width}}  {text}" for row, text in own.items()), "")
    return Answer(lines, found)


def rows(room: str) -> dict[str, str]:
    """The rows of a table in a sentence each; those of installed packages with the package they come from."""
    if room == "methods":
        ours = {name: f"{row.describe()}  [{row.paper}]" for name, row in METHODS.items()}
    else:
        ours = {name: tables.summary(room, name) for name in tables.schema(room)}
    return {**ours, **{name: f"from {tables.origin(room, name)}" for name in tables.installed(room)}}

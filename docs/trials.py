"""The trials behind docs/claims.md, so that anybody can add seeds to them instead of running all of them again.

    python docs/trials.py give runs/claims      put the trials that are kept here into a folder of claims
    python docs/trials.py keep runs/claims      take those of a folder into docs/claims/trials.jsonl

    vergence reproduce 221 --training --scale medium --any-version --run runs/claims

Of each trial stand here the settings that are not the default ones, and what was measured. ``--any-version`` reuses
trials of earlier versions of the code, as the page does.
"""

import json
import sys
from pathlib import Path

from vergence.config import Config
from vergence.runs.run import write_bytes

KEPT = Path(__file__).parent / "claims" / "trials.jsonl"


def keep(run: Path) -> int:
    """Merge the trials of a folder into those kept, by name; how many are kept now."""
    plain = Config().settings()
    found = {row["trial"]: row for row in kept()}
    for path in (run / "trials").glob("*.json"):
        stored = json.loads(path.read_text(encoding="utf-8"))
        own = {key: value for key, value in stored["settings"].items() if key not in plain or plain[key] != value}
        found[path.stem] = {"trial": path.stem, **stored, "settings": own}
    lines = [json.dumps(found[name]) for name in sorted(found)]
    write_bytes(KEPT, "".join(f"{line}\n" for line in lines).encode())
    return len(lines)


def give(run: Path) -> int:
    """Write the kept trials where a laboratory finds them, but for those that it has already; how many are new."""
    (run / "trials").mkdir(parents=True, exist_ok=True)
    rows = [row for row in kept() if not (run / "trials" / f"{row['trial']}.json").exists()]
    for row in rows:
        stored = {key: value for key, value in row.items() if key != "trial"}
        write_bytes(run / "trials" / f"{row['trial']}.json", json.dumps(stored).encode())
    return len(rows)


def kept() -> list[dict]:
    return [json.loads(line) for line in KEPT.read_text(encoding="utf-8").splitlines()] if KEPT.exists() else []


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["keep", folder]:
            print(f"{keep(Path(folder))} trials are kept in {KEPT.relative_to(Path(__file__).parents[1])}")
        case ["give", folder]:
            print(f"{give(Path(folder))} trials are new in {folder}")
        case _:
            print(__doc__)

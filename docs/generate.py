"""Write what is generated: the tables in README.md and docs/*.md, from the tables of the code.

python docs/generate.py                 rewrite
python docs/generate.py --check         exit with status 1 when something is out of date
python docs/generate.py --claims RUN    first take over what `vergence reproduce --run RUN` found, with its pictures
"""

import json
import math
import re
import shutil
import sys
from operator import itemgetter
from pathlib import Path
from statistics import NormalDist, fmean

from vergence import tables
from vergence.claims import CLAIMS as ROWS
from vergence.claims.evidence import Contrast
from vergence.claims.laboratory import LOOKS
from vergence.claims.reproduction import upgraded
from vergence.methods import METHODS

ROOT = Path(__file__).parents[1]
CLAIMS = ROOT / "docs" / "claims"
SOURCE = ROOT / "src" / "vergence"

# The map of the README: rooms in the order in which data flow through them.
FLOW = {
    "": ("cli.py", "config.py", "tables.py", "types.py", "values.py", "counters.py"),
    "what goes in": ("data", "views", "encoders"),
    "what is learned": ("objectives", "methods.py", "learning"),
    "what was learned": ("features.py", "evaluation", "diagnostics", "theory", "information"),
    "what is said about it": ("claims", "report", "integrations"),
    "how it runs": ("runs", "stages"),
}


def methods() -> str:
    """METHODS as a table, each row with its paper from references.bib."""
    papers = bibliography()
    lines = ["| method | objective | structure | paper |", "|---|---|---|---|"]
    for name, row in METHODS.items():
        own = ", ".join(f"`{key}={value}`" for key, value in row.hyperparameters.items()) or "its own"
        lines.append(
            f"| `{name}` | {f'`{row.objective}`' if row.objective else own} | {structure(row)} | {papers[row.paper]} |"
        )
    return "\n".join(lines)


def structure(row) -> str:
    """What a row compares, in words."""
    if row.learner != "two_view":
        return markdown(tables.summary("learners", row.learner))
    parts = {
        "online": "two views, one network",
        "detached": "two views, stop-gradient on one",
        "momentum": f"moving average {row.momentum:g}",
    }
    extras = ["predictor"] * bool(row.predictor) + [f"queue of {row.queue}"] * bool(row.queue) + ["labels"] * row.labels
    return ", ".join([parts[row.target], *extras])


def bibliography() -> dict[str, str]:
    """Keys of references.bib to a link with first author and year."""
    found = {}
    for entry in (ROOT / "references.bib").read_text(encoding="utf-8").split("\n@"):
        key = re.search(r"\{(\w+),", entry)
        author, year, eprint = (re.search(rf"{name}=\{{([^}}]*)", entry) for name in ("author", "year", "eprint"))
        if key and author and year:
            text = f"{author[1].split(',')[0]} et al. {year[1]}"
            found[key[1]] = f"[{text}](https://arxiv.org/abs/{eprint[1]})" if eprint else text
    return found


def rows(room: str) -> str:
    """A table of the code with the first sentence of each row's docstring."""
    lines = [f"| `{name}` | {markdown(tables.summary(room, name, formulas=True))} |" for name in tables.names(room)]
    return "\n".join(["| name | |", "|---|---|", *lines])


def markdown(text: str) -> str:
    """Docstring marks as Markdown ones; a bar inside a formula would end the cell."""
    bars = {r"\|": r"\Vert ", "|": r"\vert "}
    for bar, word in bars.items():
        text = re.sub(r":math:`[^`]*`", lambda match, bar=bar, word=word: match[0].replace(bar, word), text)
    text = re.sub(r":math:`([^`]*)`", r"$\1$", text)
    return re.sub(r":func:`([^`]*)`", r"`\1`", text).replace("``", "`")


def tree() -> str:
    """The rooms in the order in which data flow through them, one line each, from their first docstring line."""
    lines = []
    for heading, names in FLOW.items():
        lines += ["", f"  {heading}"] if heading else []
        for name in names:
            door = SOURCE / name / "__init__.py" if (SOURCE / name).is_dir() else SOURCE / name
            text = door.read_text(encoding="utf-8").split('"""')[1].strip().split("\n")[0]
            lines.append(f"  {name + '/' * (SOURCE / name).is_dir():18} {text}")
    return "\n".join(["```", "src/vergence/", *lines, "```"])


def findings() -> list:
    return json.loads((CLAIMS / "findings.json").read_text(encoding="utf-8"))


def trained() -> str:
    """The claims that train encoders: verdict, cost, the difference that is least sure, and what a decision takes."""
    rows = [row for row in findings() if row["kind"] == "training"]
    kinds = {verdict: [str(row["number"]) for row in rows if row["verdict"] == verdict] for verdict in VERDICTS}
    lines = [
        f"**{verdict.capitalize()}** ({len(which)}): {', '.join(which)}." for verdict, which in kinds.items() if which
    ]
    beyond = [f"{row['number']} ({words})" for row in rows if (words := beyond_this_machine(row))]
    if beyond:
        lines.append(f"Of these **not decidable on this machine** within an hour of one core: {', '.join(beyond)}.")
    heads = "claim | | verdict | scale, seeds, minutes | the least sure difference | seeds, minutes to decide it"
    lines += ["", f"| {heads} |", "|---:|---|---|---|---|---|"]
    for row in rows:
        cost = f"{row['scale']}, {row['seeds']}, {row['minutes']:.1f}"
        which = f"[{row['number']}](#claim-{row['number']})"
        parts = which, cell(row["sentence"]), row["verdict"], cost, cell(hinges(row)), left_to_do(row)
        lines.append("| " + " | ".join(parts) + " |")
    return "\n".join(lines)


VERDICTS = ("confirmed", "contradicted", "undecided")
SEEDS = 10_000  # more than anyone will run
LADDERS = {"knn": "kNN accuracy", "center": "accuracy of the nearest center"}
HOUR = 60.0  # minutes of one core that a claim may take at the medium scale


def hinges(row) -> str:
    """The least sure of the differences of a claim, or nothing where they were not kept."""
    if not row.get("evidence"):
        return ""
    least = min(row["evidence"], key=itemgetter("chance"))
    about = f"{least['name']}: {least['mean']:+.3f} ± {least['error']:.3f}"
    return f"{about}, above {least['margin']:g} with probability {least['chance']:.3f}"


def left_to_do(row) -> str:
    """What would decide an undecided claim: seeds and minutes, or why no number of them does."""
    if row["verdict"] != "undecided":
        return ""
    if not row["seeds"]:
        return f"not run to 2 seeds in {row['minutes']:.0f} minutes"
    if row.get("undecidable"):
        return "seeds do not"
    seeds, minutes = to_decide(row)
    return f"{seeds}, {minutes:.0f}" if seeds < SEEDS else f"over {SEEDS}"


def beyond_this_machine(row) -> str:
    """Why an undecided claim cannot be decided within an hour of one core, or nothing where it can or may be."""
    if row["verdict"] != "undecided" or not row["seeds"]:
        return ""
    if row.get("undecidable"):
        return "no number of seeds decides it"
    seeds, minutes = to_decide(row)
    if minutes <= HOUR:
        return ""
    return f"{seeds} seeds, {minutes:.0f} minutes of one core" if seeds < SEEDS else f"more than {SEEDS} seeds"


def to_decide(row) -> tuple[int, float]:
    """Seeds, and minutes of one core, that decide a claim four times in five, if the measured differences are true."""
    if not row.get("evidence"):
        return SEEDS, math.inf
    count = [seeds_for(each, len(row["evidence"])) for each in row["evidence"]]
    below = [seeds for seeds, each in zip(count, row["evidence"], strict=True) if each["mean"] < each["margin"]]
    seeds = min(below) if below else max(count)
    return seeds, seeds * row["minutes"] / row["seeds"]


def seeds_for(each, contrasts: int) -> int:
    """Seeds with which a difference as large as the measured one is decided with a power of .8, at the last look."""
    error = list(LOOKS.values())[-1] / (contrasts if each["mean"] < each["margin"] else 1)
    apart = abs(each["mean"] - each["margin"]) / (each["error"] * each["n"] ** 0.5)
    normal = NormalDist()
    return min(
        SEEDS,
        max(each["n"] + 1, math.ceil(((normal.inv_cdf(1 - error) + normal.inv_cdf(0.8)) / max(apart, 1e-9)) ** 2)),
    )


def claims() -> str:
    """What was found of every claim: a table of those that train nothing, then the claims that have pictures."""
    found = findings()
    lines = ["| claim | | verdict | measured |", "|---:|---|---|---|"]
    for row in (row for row in found if row["kind"] != "training"):
        number = f"[{row['number']}](#claim-{row['number']})" if row["pictures"] else row["number"]
        lines.append(f"| {number} | {cell(row['sentence'])} | {row['verdict']} | {cell(row['measured'])} |")
    known = {row["number"] for row in found}
    waiting = [f"{row.number}. {row.sentence}" for row in ROWS.values() if row.number not in known]
    if waiting:
        lines += ["", "Written, and not yet run:", "", *(f"- {text}" for text in waiting)]
    shown = [row for row in found if row["pictures"] or row["kind"] == "training"]
    return "\n".join([*lines, *(pictured(row) for row in shown)])


def pictured(row) -> str:
    """A claim with pictures: sentence, verdict, what was measured and how."""
    cost = f"{row['seeds']} seeds, {row['minutes']:.1f} minutes of one core" if row["seeds"] else "Seconds"
    scale = " --scale medium" if row["scale"] == "medium" else ""
    beyond = beyond_this_machine(row) if row["kind"] == "training" else ""
    verdict = row["verdict"].capitalize() + (f", and not decidable on this machine: {beyond}" if beyond else "")
    lines = [
        f"\n## Claim {row['number']}\n",
        f"{row['sentence']} **{verdict}**: {row['measured']}. {row['why']}".strip(),
        *weighed(row.get("evidence", ())),
        *by_rung(row["figures"]),
        f"\n{cost}; tolerance: {row['tolerance'] or 'none'}; `vergence reproduce {row['number']}{scale}`\n",
        *(f"![Claim {row['number']}: {cell(row['sentence'])}](claims/{name})" for name in row["pictures"]),
    ]
    return "\n".join(lines)


def weighed(evidence) -> list[str]:
    """A table of the differences that decide a claim; empty where they were not kept."""
    if not evidence:
        return []

    def number(value, form="+.3f") -> str:
        return "" if value is None else f"{value:{form}}"

    rows = [
        f"| {cell(each['name'])} | {each['mean']:+.3f} ± {number(each['error'], '.3f')} | {each['margin']:+.3g} | "
        f"{each['chance']:.3f} | {number(each['reported'])} | {number(each['power'], '.2f')} | "
        f"{number(detectable(each))} |"
        for each in evidence
    ]
    heads = "difference | mean ± error | must exceed | probability | source | power for the source's | 80 % power at"
    return ["", f"| {heads} |", "|---|---|---|---|---|---|---|", *rows]


def averaged(figures) -> dict:
    """Of what a finding measured the accuracies by method and setting, averaged over seeds; nothing of others."""
    if not LADDERS.keys() <= figures.keys():
        return {}
    return {
        key: {method: {rung: fmean(seeds) for rung, seeds in cells.items()} for method, cells in figures[key].items()}
        for key in LADDERS
    }


def by_rung(figures) -> list[str]:
    """A table like the source's: a line for each method, a column for each setting."""
    lines = []
    for key, title in LADDERS.items() if figures else ():
        rungs = list(next(iter(figures[key].values())))
        lines += ["", f"| {title} | {' | '.join(rungs)} |", f"|---|{'---:|' * len(rungs)}"]
        for method, cells in figures[key].items():
            lines.append(f"| {method} | {' | '.join(f'{cells[rung]:.3f}' for rung in rungs)} |")
    return lines


def detectable(each) -> float | None:
    """The difference that a design confirms with a power of .8, of the moments that an older finding has kept too."""
    if "detectable" in each or each["error"] is None:
        return each.get("detectable")
    moments = Contrast("", (each["mean"],), each["margin"], spread=each["error"], freedom=each["degrees"])
    return moments.detectable()


def cell(text: str) -> str:
    """Text for a cell of a table or a caption, in which a bar or a bracket would end it."""
    return re.sub(r"([|\[\]])", r"\\\1", text)


def take_over(run: Path) -> None:
    """Take findings and pictures of a run of the claims in the place of those here; of their numbers, averages."""
    path = CLAIMS / "findings.json"
    known = {row["number"]: row for row in json.loads(path.read_text(encoding="utf-8"))} if path.exists() else {}
    CLAIMS.mkdir(exist_ok=True)
    for each in sorted((run / "findings").glob("*.json"), key=lambda each: each.stem.endswith("-medium")):
        row = upgraded(json.loads(each.read_text(encoding="utf-8"))["finding"])
        if row["scale"] in ("", "small", "medium"):
            known[row["number"]] = {**row, "figures": averaged(row["figures"])}
            for name in row["pictures"]:
                shutil.copy(run / "pictures" / name, CLAIMS / name)
    found = sorted(known.values(), key=itemgetter("number"))
    shown = {name for row in found for name in row["pictures"]}
    for picture in (picture for picture in CLAIMS.glob("*.svg") if picture.name not in shown):
        picture.unlink()
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


BLOCKS = {
    "trained": trained,
    "claims": claims,
    "methods": methods,
    "objectives": lambda: rows("objectives"),
    "encoders": lambda: rows("encoders"),
    "views": lambda: rows("views"),
    "data": lambda: rows("data"),
    "results": lambda: rows("results"),
    "tree": tree,
}


def filled(text: str) -> str:
    """The text with every ``<!-- name -->...<!-- /name -->`` block made anew."""
    for name, make in BLOCKS.items():
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        if pattern.search(text):
            made = make()
            text = pattern.sub(lambda match, made=made: f"{match[1]}{made}\n{match[2]}", text)
    return text


def main() -> int:
    if "--claims" in sys.argv:
        take_over(Path(sys.argv[sys.argv.index("--claims") + 1]))
    stale = []
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]:
        text = path.read_text(encoding="utf-8")
        if filled(text) != text:
            stale.append(path.name)
            if "--check" not in sys.argv:
                path.write_text(filled(text), encoding="utf-8")
    print(f"out of date: {', '.join(stale)}" if stale else "all generated parts are up to date")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())

"""``vergence shard``: a folder, an array or texts as shards for training beyond memory."""

from pathlib import Path
from typing import Any, Literal

from vergence import data as sources
from vergence.data.arrays import divided
from vergence.data.shards.writing import verified, write_shards
from vergence.runs.progress import Progress
from vergence.runs.results import Answer

RECORDS = 1000  # samples in a shard: 64 x 64 JPEGs make 2 MB, photos 100 MB
SHOWN = 5  # skipped samples that are named; all of them are in the values


def shard(
    data: str,
    output: Path,
    *,
    format: Literal["wds", "parquet"] = "wds",
    records: int = RECORDS,
    ordered: bool = False,
    seed: int = 0,
    check: bool = False,
    quiet: bool = False,
) -> Answer:
    """Write a folder, an array, texts or any other data as WebDataset or Parquet shards, with a checksum for each.

    Files of images are copied as they are. Samples are put in another order first, by ``seed``, unless they shall stay
    ``ordered``. Called again after an interruption, it goes on after the last whole shard. With ``check`` the shards
    that are there are compared with their checksums, and nothing is written.
    """
    folder = Path(output)
    if check:
        return _checked(folder)
    if records < 1:
        raise ValueError(f"records must be at least 1, not {records}.")
    samples = _all(data)
    total = -(-len(samples) // records)
    skipped: list[tuple[str, str]] = []
    written = size = 0
    with Progress(total, quiet=quiet) as bar:
        options: dict[str, Any] = {"format": format, "records": records, "seed": None if ordered else seed}
        for entry, left_out in write_shards(samples, folder, source=data, **options):
            bar.advance(sum(entry.records))
            written, size = written + sum(entry.records), size + entry.bytes
            skipped += left_out
    lines = [f"{written:,} samples in {total:,} shards, {size / 2**20:,.1f} MiB: {folder}"]
    if skipped:
        named = "; ".join(f"{name} ({reason})" for name, reason in skipped[:SHOWN])
        lines.append(f"{len(skipped)} skipped: {named}" + "; ..." * (len(skipped) > SHOWN))
    lines.append(f"Train on them with --data {format}:{folder}")
    values = {
        "path": str(folder),
        "n": written,
        "shards": total,
        "bytes": size,
        "skipped": [list(each) for each in skipped],
    }
    return Answer(tuple(lines), values)


def _all(data: str) -> Any:
    """All samples of a source, not read yet."""
    name, argument, settings = sources.settled(data, {})
    row = sources.SOURCES[name]
    if any(key in settings for key in ("limit", "validation", "memory")):
        raise ValueError("shard writes all samples: leave out limit, validation and memory.")
    return divided(row, "all") if not callable(row) else row(*([argument] if argument else []), "all", **settings)


def _checked(folder: Path) -> Answer:
    if not (folder / "index.json").is_file():
        raise FileNotFoundError(f"{folder} has no index.json: only shards that `vergence shard` wrote can be checked.")
    faults = verified(folder)
    lines = [f"{place}: {fault}" for place, fault in faults] or [f"All shards of {folder} match their checksums."]
    return Answer(tuple(lines), {"faults": [list(each) for each in faults]}, failed=bool(faults))

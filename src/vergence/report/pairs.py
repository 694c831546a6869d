"""What anyone checks first: samples with their views, the pairs that training finds hardest, and copies."""

import numpy as np
from jaxtyping import Int
from markupsafe import Markup

from vergence.report.document import Section, section
from vergence.report.maps import SAME, unit
from vergence.report.pieces import paragraph, piece
from vergence.report.record import Record
from vergence.report.sprite import Pictures

SHOWN = 8  # cards of each kind: a row or two
EXAMPLES = 12  # samples with their views


def views(record: Record, pictures: Pictures) -> Section | None:
    """Samples drawn evenly, each beside its views as training sees them."""
    stack, rows = record.features.get("viewed"), record.features.get("viewed_rows")
    if stack is None or rows is None or len(stack) != len(rows) or stack.ndim < 3:
        return None
    place = _places(record)
    known = [number for number, row in enumerate(rows.tolist()) if row in place]
    chosen = sorted(known, key=lambda number: place[int(rows[number])])[:EXAMPLES]
    cards = [
        (
            pictures.sample(place[int(rows[number])]) + _views(stack[number], pictures),
            _card(record, place, rows, number),
        )
        for number in chosen
    ]
    if not cards or not any(drawn for drawn, _ in cards):
        return None
    told = f" ({record.config['views']})" if record.config.get("views") else ""
    text = f"Each card: a held-out sample, then its views{told}, as training sees them. Look first "
    text += "whether what you care about survives in both views, and whether the views are different at all."
    return section(
        "The views", paragraph(text), piece("strip", "Samples and their views", cards), hardest(record, pictures)
    )


def hardest(record: Record, pictures: Pictures) -> Markup | None:
    """The two views of the samples whose embeddings are furthest apart."""
    stack, rows = record.features.get("viewed"), record.features.get("viewed_rows")
    similar = _positives(record)
    if similar is None or stack is None or rows is None:
        return None
    place = _places(record)
    known = [(similar[place[row]], number) for number, row in enumerate(rows.tolist()) if row in place]
    cards = [
        (
            _views(stack[number][:2], pictures) or pictures.sample(place[int(rows[number])]),
            f"{_called(record, place[int(rows[number])])}: cosine {value:.2f}",
        )
        for value, number in sorted(known)[:SHOWN]
    ]
    return piece("strip", "Hardest positives: two views of one sample, far apart", cards) if cards else None


def pairs(record: Record, pictures: Pictures) -> Section | None:
    """Pairs of different samples that the embedding brings together: negatives, suspected false ones, copies."""
    z = record.features.get("test_z1")
    z = record.features.get("test_h") if z is None else z
    count = pictures.count or len(record.results.names or ())
    if z is None or z.ndim != 2 or min(count, len(z)) < 3:
        return None
    close = unit(np.nan_to_num(z[:count].astype(np.float32)))
    cosines = np.triu(close @ close.T, 1)
    copies = cosines >= SAME
    labels = record.features.get("test_labels")
    same = None if labels is None or len(labels) < len(close) else labels[: len(close), None] == labels[: len(close)]
    different = ~copies if same is None else ~copies & ~same
    groups = {
        "Nearest negatives" + ("" if same is None else ", of different classes"): cosines * different,
        "Suspected false negatives: pushed apart, of one class": None if same is None else cosines * (same & ~copies),
        "The same for the encoder: copies or lost detail": cosines * copies,
    }
    drawn = [_strip(record, pictures, title, values) for title, values in groups.items() if values is not None]
    words = "Pairs of different held-out samples with the closest embeddings. Training pushes each of them apart."
    kept = [part for part in drawn if part]
    return section("Pairs to look at", paragraph(words), *kept) if kept else None


def _strip(record: Record, pictures: Pictures, title: str, values: np.ndarray) -> Markup | None:
    """The pairs of largest value, each sample at most once; None where there are none."""
    best = _largest(values.ravel(), 200 * SHOWN)
    used: set[int] = set()
    cards: list[tuple[Markup, str]] = []
    for first, second in zip(*np.unravel_index(best, values.shape), strict=True):
        if {int(first), int(second)} & used or len(cards) == SHOWN:
            continue
        used |= {int(first), int(second)}
        both = pictures.sample(int(first)) + pictures.sample(int(second))
        names = " and ".join(dict.fromkeys(_called(record, int(place)) for place in (first, second)))
        cards.append((both, f"{names}: cosine {values[first, second]:.2f}"))
    return piece("strip", title, cards) if cards else None


def _largest(values: np.ndarray, count: int) -> np.ndarray:
    """The places of the largest of the values above 0, in their order; equals as they stand."""
    places = np.flatnonzero(values > 0)
    if len(places) > count:
        least = np.partition(values[places], -count)[-count]
        places = places[values[places] >= least]
    return places[np.argsort(-values[places], kind="stable")][:count]


def _places(record: Record) -> dict[int, int]:
    """Rows in the data to places on the page."""
    rows = record.features.get("test_rows")
    n = len(record.features.get("test_h", ()))
    return {int(row): place for place, row in enumerate(range(n) if rows is None else rows)}


def _positives(record: Record) -> np.ndarray | None:
    z1, z2 = (record.features.get(name) for name in ("test_z1", "test_z2"))
    if z1 is None or z2 is None or z1.shape != z2.shape:
        return None
    one, other = (unit(np.nan_to_num(z.astype(np.float32))) for z in (z1, z2))
    return np.einsum("nd,nd->n", one, other)


def _views(stack: np.ndarray, pictures: Pictures) -> Markup:
    """Views of one sample: pictures, lines of a series, or the words of a text."""
    if stack.ndim == 4:
        return Markup("").join(pictures.add(view, f"view {number}") for number, view in enumerate(stack, 1))
    if stack.ndim == 3:
        return _lines(stack[:, 0])
    return Markup("")


def _lines(series: np.ndarray) -> Markup:
    """The first channel of a few series as one small drawing."""
    low, high = float(np.nanmin(series)), float(np.nanmax(series))
    across = np.linspace(2, 118, series.shape[1])
    lines = []
    for values, color in zip(series[:2], ("accent", "contrast"), strict=False):
        up = 46 - 44 * (np.nan_to_num(values) - low) / max(high - low, 1e-12)
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(across, up, strict=True))
        lines.append(
            Markup('<polyline points="{}" fill="none" stroke="var(--{})" stroke-width="1.5"/>').format(points, color)
        )
    drawing = Markup("").join(lines)
    return Markup(
        '<svg class="spark" viewBox="0 0 120 48" role="img" aria-label="two views of a series">{}</svg>'
    ).format(drawing)


def _card(record: Record, place: dict[int, int], rows: Int[np.ndarray, " m"], number: int) -> str:
    similar, where = _positives(record), place[int(rows[number])]
    return _called(record, where) + ("" if similar is None else f": cosine {similar[where]:.2f}")


def _called(record: Record, place: int) -> str:
    """The name, the class or the row of a sample."""
    labels, classes = record.features.get("test_labels"), record.results.classes
    if labels is not None and place < len(labels) and 0 <= labels[place] < len(classes):
        return classes[labels[place]]
    rows = record.features.get("test_rows")
    return f"sample {place if rows is None or place >= len(rows) else int(rows[place])}"

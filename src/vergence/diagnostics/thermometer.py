"""The thermometer: where a loss stands between the value of a collapsed encoder and the floor that nothing can pass."""

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from vergence.diagnostics import scales
from vergence.objectives import OBJECTIVES
from vergence.tables import Table

Verdict = Literal["not started", "collapsed", "learning", "near the floor", "impossible", "unknown"]

SCALES = Table(
    "objective",
    {
        "info_nce": scales.info_nce,
        "nt_xent": scales.nt_xent,
        "two_modal": scales.two_modal,
        "supervised": scales.supervised,
        "decoupled": scales.decoupled,
        "flat_nce": scales.flat_nce,
        "revised_info_nce": scales.revised_info_nce,
        "linear_contrastive": scales.linear_contrastive,
        "triplet": scales.triplet,
        "alignment": scales.alignment,
        "uniformity": scales.uniformity,
        "align_uniform": scales.align_uniform,
        "spectral": scales.spectral,
        "barlow_twins": scales.barlow_twins,
        "vicreg": scales.vicreg,
        "negative_cosine": scales.negative_cosine,
        "sigreg": scales.sigreg,
        "lejepa": scales.lejepa,
        "siglip": scales.siglip,
        "koleo": scales.koleo,
        "swav": scales.swav,
        "dino": scales.dino,
        "tico": scales.tico,
        "w_mse": scales.w_mse,
        "mmcr": scales.mmcr,
        "frossl": scales.frossl,
    },
)

UNCOUNTED = ("siglip", "swav", "dino")  # they have a temperature and no logarithm of the number of candidates
LIKE = 0.03  # a loss within this share of a mark that lies far from the floor is like it

# Below this share of the way from chance to the floor a loss is not told from chance: batches differ by as much.
BARELY = 0.02
NEARLY = 0.95


@dataclass(frozen=True)
class Thermometer:
    """What an objective's number means for one batch shape.

    ``chance`` is the value when all embeddings coincide, ``random`` the mean over independent uniform embeddings,
    ``floor`` a value nothing passes (``attained`` says whether some batch reaches it), ``ceiling`` the largest value of
    any batch, ``marks`` further values with a meaning. ``position`` is 0 at chance and 1 at the floor; it is NaN where
    the two are equal, or without a loss.
    """

    objective: str
    n: int
    d: int
    chance: float
    random: float
    random_error: float
    floor: float
    attained: bool
    loss: float | None
    verdict: Verdict
    sentence: str
    hyperparameters: Mapping[str, Any] = field(default_factory=dict)
    coincidences: tuple[str, ...] = ()
    ceiling: float = math.inf
    marks: Mapping[str, float] = field(default_factory=dict)

    @property
    def position(self) -> float:
        span = self.chance - self.floor
        if self.loss is None or abs(span) < 1e-12:
            return math.nan
        return (self.chance - self.loss) / span

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "position": self.position}


def thermometer(
    objective: str | Callable[..., Any], *, n: int, d: int, loss: float | None = None, **hyperparameters: Any
) -> Thermometer:
    """Read a loss: chance, random and floor of an objective for n pairs in d dimensions, and where the loss stands.

    Hyperparameters are those of the objective, with its defaults. Beside them ``info_nce`` takes ``negatives``, the
    number of keys in a queue, or ``hard_negatives``, the explicit ones of each sample; ``supervised`` takes
    ``classes``, the number of equally frequent classes.

    The objective is a name or the function itself. From a loss alone, *collapsed* and *not started* cannot be told
    apart at the chance value: embeddings can.
    """
    return read(OBJECTIVES.named(objective), n=n, d=d, loss=loss, **hyperparameters)


def read(
    objective: str, *, n: int, d: int, loss: float | None = None, guess: bool = True, **hyperparameters: Any
) -> Thermometer:
    """The thermometer; without ``guess`` no other convention is looked for: embeddings have shown what the loss is."""
    if n < 2 or d < 1:
        raise ValueError(f"A batch needs at least 2 pairs and 1 dimension, not n={n}, d={d}")
    if loss is not None and not math.isfinite(loss):
        raise ValueError(f"The loss is {loss}: training has diverged. Lower the learning rate, or look for log(0)")
    chosen = _hyperparameters(objective, hyperparameters)
    scale = SCALES[objective](n, d, **chosen)
    counts = guess and loss is not None and "temperature" in chosen and objective not in UNCOUNTED
    equal = coincidences(loss, n=n, **chosen) if counts and loss is not None else ()
    if objective == "negative_cosine" and guess and loss is not None and loss > -_rounding(loss):
        verdict, sentence = _other_cosine(loss)
    else:
        verdict, sentence = _reading(scale, loss, equal)
    return Thermometer(
        objective, n, d, scale.chance, scale.random, scale.random_error, scale.floor, scale.attained, loss, verdict,
        sentence, chosen, equal, scale.ceiling, scale.marks,
    )  # fmt: skip


def coincidences(
    loss: float,
    *,
    n: int,
    temperature: float | None = None,
    negatives: int | None = None,
    hard_negatives: int | None = None,
    **_: Any,
) -> tuple[str, ...]:
    """The constants a loss equals to the digits it was given with: ln n, ln(2n - 1), ln(K + 1), ..., nearest first.

    All are losses of a collapsed encoder by one convention or another: libraries differ in which candidates they count,
    and some multiply or divide by the temperature.
    """
    constants = _constants(n, temperature, negatives, hard_negatives)
    found = sorted((abs(value - loss), name) for name, value in constants if abs(value - loss) <= _rounding(loss))
    return tuple(name for _, name in found)


def _constants(
    n: int, temperature: float | None, negatives: int | None, hard_negatives: int | None
) -> Iterator[tuple[str, float]]:
    counts = {n - 1, n, n + 1, 2 * n - 2, 2 * n - 1, 2 * n}
    if negatives is not None:
        counts |= {negatives, negatives + 1}
    if hard_negatives is not None:
        counts |= {n * (1 + hard_negatives), n + hard_negatives}  # all of the batch, or each sample's own
    for count in sorted(counts - {0, 1}):
        yield f"ln {count}", math.log(count)
        if temperature is not None:
            yield f"ln({count}) / {temperature:g}", math.log(count) / temperature
            yield f"ln({count}) x {temperature:g}", math.log(count) * temperature


def _rounding(loss: float) -> float:
    """Half a unit of the last digit that was written down, within reason."""
    digits = len(repr(float(loss)).partition(".")[2])
    return min(0.006, max(0.5 * 10.0**-digits, 1e-4 * abs(loss))) * (1 + 1e-9)


def _other_cosine(loss: float) -> tuple[Verdict, str]:
    """A positive value of the negative cosine: views would be opposite, so it is BYOL's 2 - 2 cos, as its paper has it.

    References:
        Grill et al. (2020), Eq. 2. https://arxiv.org/abs/2006.07733
    """
    if loss > 4 + _rounding(loss):
        return (
            "impossible",
            f"{loss:.4g} is neither -cos, of at most 1, nor 2 - 2 cos, of at most 4: a scaled or summed loss.",
        )
    if loss < BARELY:
        return "unknown", (
            f"{loss:.4g} is what unrelated views give where the loss is -cos, and equal ones where it is 2 - 2 cos: "
            "say which."
        )
    cosine = 1 - loss / 2
    said = f"{loss:.4g} as 2 - 2 cos, which is how BYOL writes it, is a cosine of {cosine:.3g}"
    if cosine < -BARELY:
        return "not started", f"{said}, below that of unrelated views (0): they point away from each other."
    if cosine < BARELY:
        return "not started", f"{said}: what unrelated views give."
    if cosine >= NEARLY:
        return "near the floor", f"{said}, near 1, but that is also what collapse gives: look at the embeddings."
    return "learning", f"{said}, between unrelated (0) and equal views (1)."


def _reading(scale: scales.Scale, loss: float | None, equal: tuple[str, ...]) -> tuple[Verdict, str]:
    if loss is None:
        return "unknown", f"Collapse gives {scale.chance:.4g}; nothing can be below {scale.floor:.4g}."
    allowed = _rounding(loss)
    if abs(loss - scale.chance) > allowed and equal:
        return "collapsed", (
            f"{loss:.4g} is {equal[0]}: what a collapsed encoder shows where the loss counts candidates or uses the "
            f"temperature in another way than here (here: {scale.chance:.4g}). The embeddings would settle it."
        )
    least = min(scale.floor, scale.least)
    if loss < least - allowed:
        return "impossible", (
            f"{loss:.4g} is below {least:.4g}, which no batch of this shape can pass: another batch size or "
            f"temperature, a scaled loss, or positives among the negatives' masks. {scale.note}".strip()
        )
    if loss > scale.ceiling + allowed:
        return "impossible", (
            f"{loss:.4g} is above {scale.ceiling:.4g}, the largest value that a batch of this shape can have: another "
            f"batch size or temperature, raw instead of unit embeddings, or a summed loss. {scale.note}".strip()
        )
    if abs(scale.chance - scale.floor) < 1e-12:
        return _reading_without_chance(scale, loss)
    position = (scale.chance - loss) / (scale.chance - scale.floor)
    if abs(loss - scale.chance) <= allowed or abs(position) < BARELY / 10:
        return "collapsed", (
            f"{loss:.4g} is the value when all embeddings coincide. An encoder that has just been initialized can show "
            "it too: look at the embeddings, or whether the loss moves within an epoch, to tell the two apart."
        )
    if position < BARELY:
        return "not started", f"{loss:.4g} is no better than collapse ({scale.chance:.4g}): nothing is learned yet."
    if loss > scale.unrelated - BARELY * (scale.unrelated - scale.floor):
        return "not started", (
            f"{loss:.4g} is no better than views without relation to each other reach ({scale.unrelated:.4g}): it "
            "shows that embeddings are spread, and nothing of samples yet."
        )
    if loss < scale.floor - allowed:
        return "near the floor", (
            f"{loss:.4g} is below {scale.floor:.4g}, the least in the mean over queues: the keys of this one are "
            "opposite to the queries, as keys of another encoder, or too old ones, may be."
        )
    spread = scale.unrelated < (scale.chance + scale.floor) / 2  # most of the way is gone by embeddings that are apart
    if spread:
        position = (scale.unrelated - loss) / (scale.unrelated - scale.floor)
    if position >= NEARLY:
        return "near the floor", f"{loss:.4g} is close to {scale.floor:.4g}, the least any batch can reach."
    normalized = scale.marks.get("rows of length 1", math.inf)
    if math.isfinite(normalized) and abs(loss - normalized) <= LIKE * normalized:
        return "not started", (
            f"{loss:.4g} is what rows of length 1 give ({normalized:.4g}): somebody normalized first, and this "
            "objective takes rows as they are."
        )
    start = f"views without relation ({scale.unrelated:.4g})" if spread else f"collapse ({scale.chance:.4g})"
    share = f"{100 * position:.0f} % of the way from {start} to the floor ({scale.floor:.4g})"
    return "learning", f"{loss:.4g} is {share}."


def _reading_without_chance(scale: scales.Scale, loss: float) -> tuple[Verdict, str]:
    """For objectives that collapse minimizes: their value can show that nothing was learned, not that something was."""
    if scale.random == scale.floor:
        return "unknown", f"This value says nothing: {scale.note}."
    done = (scale.random - loss) / (scale.random - scale.floor)
    if done < BARELY:
        return "not started", f"{loss:.4g} is no better than what unrelated embeddings give ({scale.random:.4g})."
    if done >= NEARLY:
        return "near the floor", f"{loss:.4g} is near {scale.floor:.4g}, but {scale.note}: look at the embeddings."
    return "learning", f"{loss:.4g} is between unrelated ({scale.random:.4g}) and equal views ({scale.floor:.4g})."


def _hyperparameters(objective: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The objective's own defaults, overridden by what was given; unknown ones are explained."""
    known = inspect.signature(SCALES[objective]).parameters.values()
    names = [parameter.name for parameter in known if parameter.kind is inspect.Parameter.KEYWORD_ONLY]
    unknown = sorted(set(given) - set(names))
    if unknown:
        raise ValueError(f"{objective} has no hyperparameter {unknown[0]!r}. Known: {', '.join(names) or 'none'}")
    signature = inspect.signature(OBJECTIVES[objective]).parameters
    defaults = {name: signature[name].default for name in names if name in signature}
    chosen = {**defaults, **given}
    for name, value in chosen.items():
        _sensible(objective, name, value)
    return chosen


def _sensible(objective: str, name: str, value: Any) -> None:
    """Refuse what no objective can be computed with; None stands for a default that depends on others."""
    if value is None or isinstance(value, str):
        return
    least = {"temperature": 0.0, "negatives": 1, "hard_negatives": 0, "classes": 2}.get(name)
    if not math.isfinite(value) or (least is not None and value < least) or (name == "temperature" and value <= 0):
        wanted = {
            "temperature": "a positive number",
            "negatives": "at least 1",
            "hard_negatives": "at least 0",
            "classes": "at least 2",
        }
        raise ValueError(f"{name} of {objective} must be {wanted.get(name, 'a finite number')}, not {value!r}")

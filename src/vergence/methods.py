"""METHODS: SimCLR, MoCo, BYOL, ... as rows. A method is an objective, the branches it compares, and a paper.

Rows carry the settings that the papers (or the sources that repeat them) use for small images; the optimizer is a
separate choice, by default AdamW at the rate that suits a row, and the papers' long schedules are the files of
``recipes/``.
This module does not import torch, so that the command line can show a method before anything is loaded.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from vergence import tables
from vergence.tables import Table

Target = Literal["online", "detached", "momentum"]
Pairs = Literal["all", "global", "first", "together"]
Memory = Literal["none", "neighbors", "center", "past"]
TWO_ENCODERS = ("two_modal", "infomax")  # learners with an encoder for each view

# What may stand in ``--heads.*``: the fields of a row that a config may override, each with its meaning.
HEADS = {
    "projector": "widths of the projector's layers; 0 stands for the width of the representation; empty for none",
    "projector_norm": "batch norm between the projector's layers",
    "projector_final_norm": "batch norm after the projector's last layer",
    "predictor": "widths of the predictor on the query branch; empty for none",
    "momentum": "weight of the past in the moving average of the target, from 0 to 1",
    "momentum_to_one": "let the momentum rise to 1 along a cosine, as BYOL does",
    "queue": "number of past keys kept as negatives; 0 for none",
    "pairs": "which of more than two views are compared: all pairs, global (views like the first) with all, first, or "
    "together (the objective takes all of them at once)",
    "prototypes": "number of prototypes that embeddings are compared with; 0 for none",
    "key_temperature_end": "what DINO's teacher temperature rises to over the first 30 % of training; 0 to keep it",
    "koleo": "weight of KoLeo beside the objective, which keeps embeddings off their nearest neighbors; 0 for none",
}


@dataclass(frozen=True)
class Method:
    """A frozen row that validates itself.

    ``target`` says where the keys come from: *online*, the same weights with gradient; *detached*, the same weights
    without; *momentum*, a moving average of them. ``learner`` names the row of LEARNERS that trains it; one that holds
    its own loss has no ``objective`` and no heads, and the hyperparameters are its own. ``views`` and ``view`` are the
    recipe, for data of its kind, and the options that the paper sets where the config leaves them open.

    ``pairs`` says over which pairs the objective is averaged where a recipe gives more than two views: *all*; *global*,
    those with a view drawn as the first one is (large crops with all crops), which only then are keys; *first*, the
    first view with each other one; or *together*, where the objective itself takes any number of views. A learner with
    two encoders compares views of one with views of the other.

    ``memory`` is what else is remembered: *neighbors*, a key is replaced by the nearest one in the queue; *center*, the
    mean of the keys; *past*, the second moments of the queries. ``prototypes`` puts unit vectors behind the projector,
    and embeddings are then the scores with them. ``encoder`` is for images what ``views`` is.
    """

    objective: str | None
    paper: str
    hyperparameters: Mapping[str, Any] = field(default_factory=dict)
    learner: str = "two_view"
    target: Target = "online"
    projector: tuple[int, ...] = (0, 128)
    projector_norm: bool = True
    projector_final_norm: bool = False
    predictor: tuple[int, ...] = ()
    momentum: float = 0.99
    momentum_to_one: bool = False
    queue: int = 0
    pairs: Pairs = "global"
    memory: Memory = "none"
    prototypes: int = 0
    key_temperature_end: float = 0.0
    koleo: float = 0.0
    learnable: tuple[str, ...] = ()
    learning_rate: float = 2e-3
    labels: bool = False
    encoder: str = "auto"
    views: str = "auto"
    view: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._check_hyperparameters()
        refusals = {
            f"target must be online, detached or momentum, got {self.target!r}": self.target not in get_args(Target),
            f"pairs must be all, global, first or together, got {self.pairs!r}": self.pairs not in get_args(Pairs),
            f"memory must be one of {', '.join(get_args(Memory))}, got {self.memory!r}": (
                self.memory not in get_args(Memory)
            ),
            f"{self.objective} takes no {self.memory}, so it cannot remember it": (
                self.memory in ("center", "past") and self.memory not in self.declared()
            ),
            "A neighbor is looked for in a queue: give its length": self.memory == "neighbors" and not self.queue,
            f"prototypes must not be negative or 1, got {self.prototypes}": self.prototypes in (1, *range(-9, 0)),
            f"momentum must be between 0 and 1, got {self.momentum}": not 0 <= self.momentum <= 1,
            f"queue must not be negative, got {self.queue}": self.queue < 0,
            f"{self.objective} takes no negatives, so it cannot use a queue (of {self.queue})": (
                self.queue > 0 and self.memory != "neighbors" and "negatives" not in self.declared()
            ),
            "A queue holds keys without gradient: it needs target='momentum'": self.queue > 0
            and self.target == "online",
            "A predictor stands on the query branch only: it needs target='momentum' or 'detached'": (
                bool(self.predictor) and self.target == "online"
            ),
            "Two modalities meet in the space of their projectors: give their widths": (
                self.learner == "two_modal" and not (self.projector and self.projector[-1])
            ),
            "A detached target without a predictor collapses (SimSiam, Sec. 4.2): give its widths": (
                self.target == "detached" and not self.predictor and not self.prototypes
            ),
        }
        for sentence, refused in refusals.items():
            if refused:
                raise ValueError(sentence)

    def _check_hyperparameters(self) -> None:
        tables.parameters("learners", self.learner)  # a learner that is in no table is refused here
        known = self.declared()
        for name, value in self.hyperparameters.items():
            if name not in known:
                raise tables.UnknownName(f"hyperparameter of {self.objective or self.learner}", name, known)
            choices = known[name].choices
            if choices and value not in choices:
                raise tables.UnknownName(name, value, choices)

    @property
    def trains(self) -> bool:
        """Whether there is anything to train."""
        return self.learner != "untrained"

    @property
    def compares(self) -> bool:
        """Whether it compares the views of a sample, so that they should come out close."""
        return self.objective is not None or self.learner in TWO_ENCODERS

    def declared(self) -> dict[str, tables.Parameter]:
        """The keywords of the objective or, where there is none, of the learner."""
        if self.objective is None:
            return tables.keywords("learners", self.learner)
        return tables.keywords("objectives", self.objective)

    def reading(self, *, hard_negatives: int = 0) -> dict[str, Any]:
        """What the thermometer needs to read this method's loss: the hyperparameters, and how many negatives there are.

        They are the queue's, and explicit ones of each sample where the data has any. What an objective draws at random
        is not read, so its seed is left out: the seed of a diagnosis is another one.
        """
        contrasts = self.queue and self.objective == "info_nce" and self.memory == "none"
        queue = {"negatives": self.queue} if contrasts else {}
        hard = {"hard_negatives": hard_negatives} if hard_negatives and "hard_negatives" in self.declared() else {}
        own = {name: value for name, value in self.hyperparameters.items() if name != "seed"}
        return {**own, **queue, **hard}

    def describe(self) -> str:
        """The structure in one line, as the papers draw it."""
        if self.objective is None:
            choices = ", ".join(f"{name}={value}" for name, value in self.hyperparameters.items())
            return f"{self.learner}({choices}): {tables.summary('learners', self.learner)}"
        if self.learner == "two_modal":
            return f"{self.objective}(f1, g1 | f2, g2)"
        branches = "f, g" + (", predictor" if self.predictor else "")
        target = {"online": "same branch", "detached": "stop-gradient", "momentum": f"moving average {self.momentum}"}
        extra = f", queue of {self.queue}" if self.queue else ""
        extra += f", {self.prototypes} prototypes" if self.prototypes else ""
        extra += {"neighbors": ", nearest neighbors", "center": ", center", "past": ", past"}.get(self.memory, "")
        return f"{self.objective}({branches} | {target[self.target]}{extra})"


def alone(learner: str, paper: str, hyperparameters: Mapping[str, Any] | None = None, **fields: Any) -> Method:
    """The row of a learner that holds its own loss: no objective, no heads."""
    return Method(None, paper, hyperparameters or {}, learner=learner, projector=(), **fields)


UNDISTORTED = {"color": False, "gray": False, "blur": False}  # crops and flips only

METHODS = Table(
    "method",
    {
        "simclr": Method("nt_xent", "chen2020simclr", {"temperature": 0.5}),
        "flatclr": Method("flat_nce", "chen2021flatnce", {"temperature": 0.1}),
        "dcl": Method("decoupled", "yeh2022dcl", {"temperature": 0.1}),
        "align_uniform": Method("align_uniform", "wang2020hypersphere"),
        "moco_align_uniform": Method(
            "align_uniform", "wang2020hypersphere", {"align_weight": 3.0, "t": 3.0}, target="momentum", queue=4096,
            momentum=0.99, projector_norm=False,
        ),
        "revised_info_nce": Method("revised_info_nce", "huang2023generalization", {"temperature": 0.2}),
        # The last norm keeps every column spread, which the loss does not: without it kNN stays at random features'.
        "linear_contrastive": Method("linear_contrastive", "huang2023generalization", projector_final_norm=True),
        "spectral": Method("spectral", "haochen2021spectral", projector=(2048, 1000), projector_final_norm=True),
        "triplet": Method("triplet", "schroff2015facenet", {"margin": 0.5}),
        "moco": Method(
            "info_nce", "chen2020mocov2", {"temperature": 0.1}, target="momentum", queue=4096, momentum=0.99,
            projector_norm=False,
        ),
        "moco_v3": Method(
            "info_nce", "chen2021mocov3", {"temperature": 0.2}, target="momentum", projector=(2048, 256),
            predictor=(2048, 256), momentum_to_one=True,
        ),
        "byol": Method(
            "negative_cosine", "grill2020byol", target="momentum", projector=(2048, 256), predictor=(2048, 256),
            momentum=0.99, momentum_to_one=True,
        ),
        "simsiam": Method(
            "negative_cosine", "chen2021simsiam", target="detached", projector=(2048, 2048),
            projector_final_norm=True, predictor=(512, 2048),
        ),
        "barlow_twins": Method("barlow_twins", "zbontar2021barlow", projector=(2048, 2048, 2048)),
        # At the others' rate it ends below an untrained encoder: nothing normalizes what its wide last layer gives.
        "vicreg": Method("vicreg", "bardes2022vicreg", projector=(2048, 2048, 2048), learning_rate=5e-4),
        "lejepa": Method(
            "lejepa", "balestriero2025lejepa", {"weight": 0.05}, projector=(512, 512, 64), pairs="together",
        ),
        "siglip": Method(
            "siglip", "zhai2023siglip", {"temperature": 10.0, "bias": -10.0}, learnable=("temperature", "bias"),
        ),
        # The paper's epsilon of .05 gives uniform codes until scores are spread, which short runs do not live to see.
        "swav": Method(
            "swav", "caron2020swav", {"epsilon": 0.01}, target="detached", projector=(512, 128), prototypes=512,
            views="multi_crop",
        ),
        "nnclr": Method(
            "info_nce", "dwibedi2021nnclr", {"temperature": 0.1}, target="detached", queue=16384, memory="neighbors",
            projector=(512, 256), projector_final_norm=True, predictor=(512, 256),
        ),
        "dino": Method(
            "dino", "caron2021dino", target="momentum", memory="center", projector=(512, 256), prototypes=1024,
            momentum=0.996, momentum_to_one=True, key_temperature_end=0.07, views="multi_crop",
        ),
        "tico": Method(
            "tico", "zhu2022tico", target="momentum", memory="past", projector=(512, 256), momentum_to_one=True,
        ),
        "w_mse": Method("w_mse", "ermolov2021whitening", projector=(512, 64)),
        "mmcr": Method("mmcr", "yerxa2023mmcr", projector=(512, 128), pairs="together"),
        "frossl": Method("frossl", "skean2024frossl", projector=(512, 512), pairs="together"),
        "supervised_contrastive": Method("supervised", "khosla2020supcon", {"temperature": 0.1}, labels=True),
        "clip": Method(
            "two_modal", "radford2021clip", {"temperature": 0.07}, learner="two_modal", projector=(128,),
            learnable=("temperature",), views="captions",
        ),
        # Both papers compare directions of the representation itself: no projector.
        "quick_thought": Method(
            "info_nce", "logeswaran2018quickthought", {"temperature": 0.075}, learner="context", projector=(),
            views="pairs",
        ),
        "simcse": Method("info_nce", "gao2021simcse", {"temperature": 0.05}, projector=(), views="dropout"),
        "infomax": alone("infomax", "tschannen2020mutual", {"bound": "info_nce"}, views="halves"),
        "infomax_nwj": alone("infomax", "tschannen2020mutual", {"bound": "nwj"}, views="halves"),
        "infomax_dv": alone("infomax", "tschannen2020mutual", {"bound": "donsker_varadhan"}, views="halves"),
        "mae": alone("mae", "he2022mae", view=UNDISTORTED, encoder="vit", learning_rate=1e-3),
        "i_jepa": alone("i_jepa", "assran2023ijepa", view=UNDISTORTED, encoder="vit", learning_rate=1e-3),
        "rotation": alone("rotation", "gidaris2018rotation", view=UNDISTORTED),
        "colorization": alone("colorization", "zhang2016colorization", view=UNDISTORTED),
        "bigan": alone("bigan", "donahue2017bigan", view=UNDISTORTED),
        "supervised": alone("classifier", "he2016resnet", labels=True, view=UNDISTORTED),
        "random": alone("untrained", "saxe2011random"),
    },
    room="methods",
)  # fmt: skip


def customized(name: str, *, heads: Mapping[str, Any], objective: Mapping[str, Any]) -> Method:
    """The row ``name`` with the config's overrides; the row checks itself again."""
    row = METHODS[name]
    if not isinstance(row, Method):
        raise ValueError(f"{name} is {type(row).__name__}, not a vergence.methods.Method.")
    own = dict(objective)
    chosen = own.pop("name", row.objective)
    if chosen != row.objective:
        if row.objective is None:
            raise ValueError(f"{name} has a loss of its own, so the objective cannot be {chosen}.")
        if not isinstance(chosen, str):
            raise ValueError(f"The name of an objective is text, not {type(chosen).__name__}.")
        row = dataclasses.replace(row, objective=chosen, hyperparameters={})
    if heads and row.objective is None:
        raise ValueError(f"{name} has no heads, so there is no {', '.join(heads)} to set.")
    for key in heads:
        if key not in HEADS:
            raise tables.UnknownName("head setting", key, HEADS)
    hyperparameters = {**row.hyperparameters, **own}
    fields: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in heads.items()}
    return dataclasses.replace(row, hyperparameters=hyperparameters, **fields)

"""Vergence: a workbench for contrastive representation learning.

    import vergence as vg

    vg.doctor(h, labels=labels)                  # I have embeddings: what are they worth?
    vg.objectives.nt_xent(z1, z2)                # I have a loop: exact, fast objectives
    vg.train(data="digits", run="runs/first")    # I have data: give me an encoder
    vg.load("runs/first").encode(samples)        # I have an encoder: use it

Names are imported when they are first used, so that the command line starts without torch; type checkers and editors
see them all.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vergence import claims as claims
    from vergence import config as config
    from vergence import data as data
    from vergence import diagnostics as diagnostics
    from vergence import encoders as encoders
    from vergence import evaluation as evaluation
    from vergence import features as features
    from vergence import information as information
    from vergence import integrations as integrations
    from vergence import learning as learning
    from vergence import methods as methods
    from vergence import objectives as objectives
    from vergence import report as report
    from vergence import runs as runs
    from vergence import stages as stages
    from vergence import tables as tables
    from vergence import theory as theory
    from vergence import views as views
    from vergence.config import Config as Config
    from vergence.information import estimate as estimate
    from vergence.integrations.encoder import Encoder as Encoder
    from vergence.integrations.encoder import load as load
    from vergence.integrations.estimator import ContrastiveEncoder as ContrastiveEncoder
    from vergence.learning.collectives import gather as gather
    from vergence.methods import Method as Method
    from vergence.runs.run import Run as Run
    from vergence.stages.compare import compare as compare
    from vergence.stages.doctor import doctor as doctor
    from vergence.stages.embed import embed as embed
    from vergence.stages.export import export as export
    from vergence.stages.finetune import finetune as finetune
    from vergence.stages.mine import mine as mine
    from vergence.stages.report import report as write_report  # noqa: F401
    from vergence.stages.reproduce import reproduce as reproduce
    from vergence.stages.shard import shard as shard
    from vergence.stages.train import train as train
    from vergence.stages.views import views as rank_views  # noqa: F401
    from vergence.stages.watch import watch as watch

__version__ = "0.2.0"

_ROOMS = (
    "data", "views", "encoders", "objectives", "methods", "learning", "features", "evaluation", "diagnostics", "theory",
    "information", "claims", "report", "integrations", "runs", "stages", "config", "tables",
)  # fmt: skip

# A verb whose name is a room's has another name here.
_NAMES = {
    "Config": "config:Config",
    "Method": "methods:Method",
    "Run": "runs.run:Run",
    "Encoder": "integrations.encoder:Encoder",
    "ContrastiveEncoder": "integrations.estimator:ContrastiveEncoder",
    "train": "stages.train:train",
    "load": "integrations.encoder:load",
    "embed": "stages.embed:embed",
    "doctor": "stages.doctor:doctor",
    "rank_views": "stages.views:views",
    "estimate": "information:estimate",
    "finetune": "stages.finetune:finetune",
    "shard": "stages.shard:shard",
    "mine": "stages.mine:mine",
    "watch": "stages.watch:watch",
    "compare": "stages.compare:compare",
    "write_report": "stages.report:report",
    "reproduce": "stages.reproduce:reproduce",
    "export": "stages.export:export",
    "gather": "learning.collectives:gather",
}
__all__ = [*_NAMES, *_ROOMS]


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        module, _, attribute = _NAMES[name].partition(":")
        return getattr(importlib.import_module(f"{__name__}.{module}"), attribute)
    if name in _ROOMS:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])

"""Vergence: a workbench for contrastive representation learning.

    import vergence as vg

    vg.doctor(h, labels=labels)                  # I have embeddings: what are they worth?
    vg.objectives.nt_xent(z1, z2)                # I have a loop: exact, fast objectives
    vg.ContrastiveEncoder(epochs=50).fit(X)      # I have data: give me an encoder

Names are imported when they are first used, so that the command line starts without torch.
"""

import importlib
from typing import Any

__version__ = "0.1.0"

_ROOMS = (
    "data", "views", "encoders", "objectives", "methods", "learners", "training", "distributed", "features",
    "evaluation", "diagnostics", "theory", "information", "claims", "report", "pipeline", "config",
)  # fmt: skip
_NAMES = {
    "Config": "config",
    "ContrastiveEncoder": "estimator",
    "Run": "run",
    "train": "pipeline",
    "embed": "pipeline",
    "doctor": "pipeline",
    "compare": "pipeline",
    "rank_views": "stages.views",
    "estimate": "information",
}
__all__ = [*_NAMES, *_ROOMS]


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(importlib.import_module(f"{__name__}.{_NAMES[name]}"), name)
    if name in _ROOMS:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])

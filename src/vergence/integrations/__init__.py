"""Vergence inside other programs: estimator, encoder, the doctor in anyone's loop, exports.

vergence.integrations.watch(trainer)    # one line for a trainer of Lightning, lightly or Hugging Face
watcher = Watcher("runs/theirs")        # a loop of one's own: watcher(loss, z1, z2) after every step
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vergence.integrations.callbacks import lightning_callback as lightning_callback
    from vergence.integrations.callbacks import trainer_callback as trainer_callback
    from vergence.integrations.callbacks import watch as watch
    from vergence.integrations.watcher import Watcher as Watcher

_NAMES = {
    "watch": "callbacks",
    "lightning_callback": "callbacks",
    "trainer_callback": "callbacks",
    "Watcher": "watcher",
    "EXPORTS": "exports",
}
__all__ = ["EXPORTS", "Watcher", "lightning_callback", "trainer_callback", "watch"]


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(importlib.import_module(f"{__name__}.{_NAMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

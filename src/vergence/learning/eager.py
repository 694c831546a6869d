"""torch's optimizers without its compiler, which they import at their first use and need only where it compiles them.

The import takes as long as that of torch itself, before the first step of every run.
"""

import inspect
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch.optim import Optimizer

UNCOMPILED = ("add_param_group", "zero_grad", "state_dict", "load_state_dict")  # what torch hides from its compiler


@cache
def eager(kind: type[Optimizer]) -> Any:
    """The same optimizer: its step is torch's own, called without the breaks that torch puts around it for a graph.

    A step that takes part in a graph (``differentiable``) keeps them.
    """
    _hide_lazily()
    whole, plain = kind.step, inspect.unwrap(kind.step)

    def step(self: Any, closure: Callable[[], Any] | None = None) -> Any:
        if self.defaults.get("differentiable") or torch.compiler.is_compiling():
            return whole(self, closure)
        with torch.no_grad():
            return plain(self, closure)

    return type(kind.__name__, (kind,), {"step": step, "__module__": kind.__module__, "__doc__": kind.__doc__})


def _hide_lazily() -> None:
    """Let the methods that torch hides from its compiler wait for it: where it was never imported, nothing compiles.

    torch keeps the hidden form of a function as an attribute of it; where it does not, nothing changes but the time.
    """
    for name in UNCOMPILED:
        function = inspect.unwrap(getattr(Optimizer, name))
        if not hasattr(function, "__dynamo_disable"):
            setattr(function, "__dynamo_disable", _hidden(function))


def _hidden(function: Callable[..., Any]) -> Callable[..., Any]:
    def called(*given: Any, **options: Any) -> Any:
        compiler = sys.modules.get("torch._dynamo")
        disable = getattr(compiler, "disable", None)  # None also while it is being imported
        return (disable(function, wrapping=False) if disable else function)(*given, **options)

    return called

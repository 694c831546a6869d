"""Depth: which layer of an encoder a parameter belongs to, counted from the input, and the rate of each layer."""

from collections import Counter

from torch import nn

CONTAINERS = (nn.Sequential, nn.ModuleList)


def depths(encoder: nn.Module) -> dict[str, int]:
    """The layer of every parameter by name, from 0: embeddings and the stem come first, the last block comes last.

    An encoder is opened wherever it holds, at any depth, a chain with two or more members of one class (the layers of a
    perceptron, the blocks of a residual network or a transformer). A member of a chain is one layer, unless it is a
    stage: it holds a chain of blocks itself. A norm belongs to the layer before it.
    """
    found: dict[str, int] = {}
    layer = -1
    for name, parameters in _blocks(encoder, ""):
        if layer < 0 or any(parameter.ndim > 1 for parameter in parameters.values()):
            layer += 1
        found |= {f"{name}{inner}": layer for inner in parameters}
    own = [name for name, _ in encoder.named_parameters() if name not in found]
    return {**dict.fromkeys(own, 0), **found}


def scales(encoder: nn.Module, decay: float) -> dict[str, float]:
    """The factor on the learning rate of every parameter: decay^(L - l) in layer l = 0, ..., L - 1; heads have 1.

    References:
        Clark et al. (2020), ELECTRA, App. A; Bao et al. (2022), BEiT, Sec. 3.1. https://arxiv.org/abs/2106.08254
    """
    layers = depths(encoder)
    count = max(layers.values(), default=0) + 1
    return {name: decay ** (count - layer) for name, layer in layers.items()}


def _blocks(module: nn.Module, prefix: str, *, member: bool = False) -> list[tuple[str, dict[str, nn.Parameter]]]:
    """The layers of a module in order: the prefix of each, and its parameters by name."""
    if not any(_is_chain(inner, of_blocks=member) for inner in module.modules()):
        parameters = dict(module.named_parameters())
        return [(prefix, parameters)] if parameters else []
    own = dict(module.named_parameters(recurse=False))
    found = [(prefix, own)] if own else []
    for name, child in module.named_children():
        inside = member or (_is_chain(module) and type(child) not in CONTAINERS)
        found += _blocks(child, f"{prefix}{name}.", member=inside)
    return found


def _is_chain(module: nn.Module, *, of_blocks: bool = False) -> bool:
    """Whether a module is a container with two members of one class; with ``of_blocks`` of a class that has parts."""
    if not isinstance(module, CONTAINERS):
        return False
    members = [child for child in module if any(True for _ in child.parameters())]
    kinds = Counter(type(child) for child in members if not of_blocks or any(True for _ in child.children()))
    return max(kinds.values(), default=0) > 1

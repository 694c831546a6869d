"""Capture: the embeddings of a training step, taken from a module's outputs by a hook."""

from typing import Any

from torch import Tensor, nn

# What heads and encoders are called in lightly and solo-learn, in the order in which they are looked for.
HEADS = ("projection_head", "projector", "projection", "student_head", "head", "online_projector")
BACKBONES = ("backbone", "encoder", "student_backbone", "model")


class Capture:
    """Remembers what a module gave in this step: one output for each view, or both views in one batch."""

    def __init__(self, module: nn.Module, backbone: nn.Module | None = None):
        self.active = False
        self._made: dict[str, list[Tensor]] = {"z": [], "h": []}
        self._hooks = [module.register_forward_hook(lambda *call: self._note("z", call[2]))]
        if backbone is not None and backbone is not module:
            self._hooks.append(backbone.register_forward_hook(lambda *call: self._note("h", call[2])))

    def _note(self, name: str, output: Any) -> None:
        if self.active and (rows := rows_of(output)) is not None:
            self._made[name].append(rows.detach())

    def take(self) -> dict[str, Tensor]:
        """The two views' embeddings ``z1`` and ``z2``, and ``h`` of the first, as far as there are any; then forget."""
        if not self._made["z"]:
            return {}
        made, self._made = self._made, {"z": [], "h": []}
        z = [rows for rows in made["z"] if len(rows) == len(made["z"][0])]
        if len(z) == 1:
            z = list(z[0].chunk(2)) if len(z[0]) > 1 and len(z[0]) % 2 == 0 else z
        found = {"z1": z[0], **({"z2": z[1]} if len(z) > 1 and z[1].shape == z[0].shape else {})}
        h = next((rows[: len(z[0])] for rows in made["h"] if len(rows) >= len(z[0])), None)
        return {**found, **({"h": h} if h is not None else {})}

    def remove(self) -> None:
        for hook in self._hooks:
            hook.remove()


def rows_of(output: Any) -> Tensor | None:
    """A row for each sample in what a module gave: a tensor, a sentence embedding, a pooled output, a mean."""
    if isinstance(output, Tensor):
        return output.flatten(1) if output.ndim >= 2 else None
    for name in ("sentence_embedding", "pooler_output", "image_embeds", "text_embeds"):
        value = output.get(name) if isinstance(output, dict) else getattr(output, name, None)
        if isinstance(value, Tensor):
            return value.flatten(1)
    states = output.get("last_hidden_state") if isinstance(output, dict) else getattr(output, "last_hidden_state", None)
    return states.mean(1) if isinstance(states, Tensor) else None


def parts_of(module: nn.Module, embeddings: str | None = None) -> tuple[nn.Module, nn.Module | None]:
    """The module whose outputs are compared, and the backbone before it: by name, or as they are usually called."""
    children = dict(module.named_modules())
    if embeddings is not None:
        if embeddings not in children:
            raise ValueError(f"There is no module {embeddings!r}. There are {', '.join(list(children)[1:12])}, ...")
        return children[embeddings], None
    head = next((children[name] for name in HEADS if name in children), None)
    backbone = next((children[name] for name in BACKBONES if name in children), None)
    return (head, backbone) if head is not None else (backbone if backbone is not None else module, None)


def objective_of(module: nn.Module) -> dict[str, Any]:
    """The objective and temperature of a loss that has a scale here: lightly's NTXentLoss without a memory bank."""
    for loss in module.modules():
        size = getattr(getattr(loss, "memory_bank", None), "size", 0) or 0
        if type(loss).__name__ == "NTXentLoss" and not (size if isinstance(size, int) else max(size, default=0)):
            return {"objective": "nt_xent", "temperature": float(loss.temperature)}  # type: ignore[arg-type]
    return {}

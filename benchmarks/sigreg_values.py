"""The SIGReg and LeJEPA values that five pieces of code print for the same tensors, beside ours.

    python benchmarks/sigreg_values.py CLONES

CLONES is a folder with clones of github.com/rbalestr-lab/lejepa, lightly-ai/lightly, rbalestr-lab/stable-pretraining
and facebookresearch/eb_jepa. Their own definitions are executed, taken out of their files by name, so that nothing of
them need be installed; none of their code is here. Tensors: three views of 256 rows in 64 dimensions, the others the
first with noise, in four states: Gaussian, of length 1, all 0, and of rank 8. Means over 10 draws of directions.
"""

import ast
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vergence.objectives import lejepa, sigreg

N, D, DRAWS = 256, 64, 10


def main() -> None:
    torch.set_num_threads(1)
    folder = Path(sys.argv[1])
    states = dict(tensors())
    print(f"| code | {' | '.join(states)} | loss of Gaussian views |\n|---|{'---:|' * (len(states) + 1)}")
    for name, (regular, whole) in codes(folder).items():
        cells = [f"{mean_of(regular, z1):.4g}" for z1, *_ in states.values()]
        print(f"| {name} | {' | '.join(cells)} | {mean_of(whole, *states['Gaussian']):.4g} |")


def tensors() -> Iterator[tuple[str, tuple[Tensor, ...]]]:
    generator = torch.Generator().manual_seed(0)

    def drawn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    z = drawn(N, D)
    flat = drawn(N, 8) @ drawn(8, D) / 8**0.5
    for name, rows in {
        "Gaussian": z,
        "length 1": torch.nn.functional.normalize(z),
        "all 0": 0 * z,
        "rank 8 of 64": flat,
    }.items():
        yield name, (rows, *((rows + 0.3 * drawn(N, D)) / 1.09**0.5 for _ in range(2)))


def mean_of(code: Callable[..., Any], *rows: Tensor) -> float:
    values = []
    for draw in range(DRAWS):
        torch.manual_seed(draw)
        values.append(float(code(*rows)))
    return sum(values) / DRAWS


def codes(folder: Path) -> dict[str, tuple[Callable[..., Any], Callable[..., Any]]]:
    """For each code, SIGReg of one view and its whole loss: of two global views and a local one, or of the two."""
    counter = iter(range(10**6))
    found: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
        "**vergence**": (
            lambda z: sigreg(z, seed=next(counter)),
            lambda *z: lejepa(*z, global_views=2, seed=next(counter)),
        )
    }
    minimal = taken(_block(folder / "lejepa" / "MINIMAL.md"), ["SIGReg"])["SIGReg"]()

    def both(one: Callable[[Tensor], Tensor], weight: float) -> Callable[..., Tensor]:
        """The combination that MINIMAL.md prints, over stacked views."""
        return lambda *z: weight * one(torch.stack(z)) + (1 - weight) * _apart(torch.stack(z))

    whole = _whole(folder)
    found["lejepa, package"] = (whole["package"], both(whole["package"], 0.05))
    found["lejepa, MINIMAL.md"] = (minimal, both(minimal, 0.02))
    light = taken((folder / "lightly/lightly/loss/lejepa_loss.py").read_text(), None)
    one, loss = light["SIGReg"](), light["LeJEPALoss"]()
    found["lightly"] = (one, lambda *z: loss(local_proj=torch.stack(z[2:]), global_proj=torch.stack(z[:2])))
    stable = taken(
        (folder / "stable-pretraining/stable_pretraining/methods/lejepa.py").read_text(),
        ["EppsPulley", "SlicedEppsPulley", "LeJEPA", "LeJEPAOutput"],
        ModelOutput=object,
    )
    sliced = stable["SlicedEppsPulley"]()
    found["stable-pretraining"] = (
        sliced,
        lambda *z: stable["LeJEPA"]._compute_loss(torch.stack(z), 2, sliced, 0.02)[0],
    )
    meta = taken((folder / "eb_jepa/eb_jepa/losses.py").read_text(), ["all_reduce", "epps_pulley", "BCS"])
    batched = meta["BCS"]()
    found["eb_jepa"] = (lambda z: batched(z, z)["bcs_loss"], lambda *z: batched(*z[:2])["loss"])
    return found


def _whole(folder: Path) -> dict[str, Any]:
    """The package's test with its defaults and the number of slices that its README uses."""
    place = folder / "lejepa" / "lejepa"
    line = taken((place / "univariate/base.py").read_text(), None)
    test = taken(
        (place / "univariate/epps_pulley.py").read_text(), ["EppsPulley"], **{"all_reduce": lambda x: x, **line}
    )["EppsPulley"]()
    sliced = taken((place / "multivariate/slicing.py").read_text(), None)["SlicingUnivariateTest"]
    return {"package": sliced(univariate_test=test, num_slices=1024)}


def taken(source: str, names: list[str] | None, **given: Any) -> dict[str, Any]:
    """The definitions of a source text by name, or all of them, executed with torch and what is given."""
    tree = ast.parse(source)
    kept = [
        node
        for node in tree.body
        if (isinstance(node, ast.ClassDef | ast.FunctionDef) and (names is None or node.name in names))
        or (isinstance(node, ast.Import | ast.ImportFrom) and _importable(node))
        or (isinstance(node, ast.Assign) and names is None)
    ]
    space: dict[str, Any] = {
        "torch": torch,
        "nn": torch.nn,
        "F": torch.nn.functional,
        "Module": torch.nn.Module,
        **given,
    }
    exec(compile(ast.Module(kept, []), "<their code>", "exec"), space)
    return space


def _importable(node: ast.Import | ast.ImportFrom) -> bool:
    names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
    return all(name.split(".")[0] in ("torch", "typing", "math", "__future__", "dataclasses") for name in names)


def _block(path: Path) -> str:
    """The Python block of a Markdown page that defines SIGReg, on the processor."""
    blocks = re.findall(r"```python\n(.*?)```", path.read_text(), flags=re.DOTALL)
    return next(block for block in blocks if "class SIGReg" in block).replace('"cuda"', '"cpu"')


def _apart(views: Tensor) -> Tensor:
    return (views.mean(0) - views).square().mean()


if __name__ == "__main__":
    main()

"""Does the Triton kernel compile for GPUs that are not here, and what does it take of them?

Triton's own compiler makes PTX and a binary for sm_80 (A100) and sm_90 (H100), and AMDGCN for gfx942 (MI300X); neither
a GPU nor nvcc is needed. Prints the registers of a thread, the shared memory of a program, the spilled bytes, and how
many programs of that size a multiprocessor holds at once. Run:

    make test-kernel        # makes .venv-kernel, with triton, and runs this at the end
    .venv-kernel/bin/python benchmarks/kernel_compile.py [--all]
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

os.environ.pop("TRITON_INTERPRET", None)  # what is interpreted cannot be compiled
os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")  # the default of Triton 3.9, said aloud
if find_spec("triton") is None:
    sys.exit("This needs triton: run `make test-kernel`, or pip install 'vergence[triton]'.")

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from vergence.objectives import triton_pairwise as host
from vergence.objectives import triton_sigmoid as sigmoid
from vergence.objectives import triton_tiles as tiles

TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_90": GPUTarget("cuda", 90, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
}
PROGRAMS = {
    "sums": tiles.sums_of_a_patch,
    "gradient, atomic": tiles.gradient_of_a_tile,
    "gradient, deterministic": tiles.gradient_of_a_block,
    "SigLIP": sigmoid.pairs_of_a_block,
}
FORMS = {
    "two views": {"SYMMETRIC": True, "PARTNER": True, "COLUMNS": True},
    "two directions": {"SYMMETRIC": False, "PARTNER": True, "COLUMNS": True},
    "negatives": {"SYMMETRIC": False, "PARTNER": False, "COLUMNS": False},
}
# Type of the rows; how products are taken forward and, of float32 shares with rows, backward.
PRECISIONS = {
    "float32": ("fp32", "ieee", "ieee"),
    "bfloat16": ("bf16", "ieee", "tf32"),
    "float32 as tf32x3": ("fp32", "tf32x3", "tf32x3"),
    "float16": ("fp16", "ieee", "tf32"),
}
INTEGERS = ("n", "m", "d", "partner", "blocks")
D = 128  # width of the embeddings: SimCLR's
# Of a multiprocessor: registers, KiB of shared memory, warps (CUDA C++ Programming Guide, compute capabilities).
LIMITS = {"sm_80": (65536, 164, 64), "sm_90": (65536, 228, 64)}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--all", action="store_true", help="every form and precision, about five minutes")
    everything = arguments.parse_args().all
    print(f"triton {triton.__version__}, tiles of {host.SIDE} x {host.SIDE}, width {D}\n")
    print("| GPU | program | form | rows | registers | shared KiB | spilled bytes | programs a multiprocessor |")
    print("|---|---|---|---|---:|---:|---:|---:|")
    for target, program, form, precision in cases(everything):
        print(line(target, program, form, precision), flush=True)


def cases(everything: bool) -> list[tuple[str, str, str, str]]:
    """What is compiled: the form of SimCLR in two precisions on every target, or all there is."""
    forms, precisions = (FORMS, PRECISIONS) if everything else (["two views"], ["float32", "bfloat16"])
    every = [(t, p, f, q) for t in TARGETS for p in PROGRAMS if p != "SigLIP" for f in forms for q in precisions]
    # SigLIP has one form, and its rows come in float32: the objective widens them.
    every += [(t, "SigLIP", "all pairs", q) for t in TARGETS for q in precisions if q.startswith("float32")]
    return [case for case in every if case[0] != "gfx942" or "tf32" not in case[3]]


def line(target: str, program: str, form: str, precision: str) -> str:
    registers, shared, spilled = use(target, compiled(target, program, form, precision))
    fits = at_once(target, registers, shared, launched(precision)["num_warps"])
    return f"| {target} | {program} | {form} | {precision} | {registers} | {shared / 1024:.0f} | {spilled} | {fits} |"


def compiled(target: str, program: str, form: str, precision: str):
    """The kernel of Triton's compiler for a target."""
    function, (rows, forward, backward) = PROGRAMS[program], PRECISIONS[precision]
    if target == "gfx942":
        backward = "ieee"
    values = {
        **FORMS.get(form, {}),
        **launched(precision),
        "SIDE": host.SIDE,
        "ACC": tl.float32,
        "PRECISION": forward,
        "BACK": backward,
        "WIDEN": False,
        "ROWS": True,
        "MOVES": form != "negatives",
    }
    known = {name: value for name, value in values.items() if name in function.arg_names}
    kinds = {name: kind(name, rows) for name in function.arg_names if name not in known}
    # Rows and their lengths start at multiples of 16, as torch's do at width 128: what lets loads be wide.
    aligned = {(function.arg_names.index(name),): [["tt.divisibility", 16]] for name in kinds if name != "blocks"}
    source = ASTSource(function, {**kinds, **dict.fromkeys(known, "constexpr")}, known, aligned)
    return triton.compile(source, target=TARGETS[target], options={"num_warps": launched(precision)["num_warps"]})


def launched(precision: str) -> dict[str, int]:
    """The width of the products and the number of warps that the kernel is launched with."""
    return host.BY_CORES if PRECISIONS[precision][:2] == ("fp32", "ieee") else host.BY_TENSOR_CORES


def kind(name: str, rows: str) -> str:
    if name in INTEGERS:
        return "i32"
    return f"*{rows}" if name in ("rows", "columns") else "*fp32"


def use(target: str, kernel) -> tuple[int, int, int]:
    """Registers of a thread, bytes of shared memory of a program, bytes of registers that went to memory."""
    shared = kernel.metadata.shared
    if target == "gfx942":
        text = kernel.asm["amdgcn"]
        found = {key: int(re.search(rf"\.{key}:\s+(\d+)", text)[1]) for key in ("vgpr_count", "vgpr_spill_count")}
        return found["vgpr_count"], shared, 4 * found["vgpr_spill_count"]
    assert f".target {target}" in kernel.asm["ptx"]
    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(kernel.asm["cubin"])
        file.flush()
        told = subprocess.run([tool, "-res-usage", file.name], capture_output=True, text=True, check=True).stdout
    stack, local = (int(re.search(rf"{place}:(\d+)", told)[1]) for place in ("STACK", "LOCAL"))
    return int(re.search(r"REG:(\d+)", told)[1]), shared, max(stack, local)


def at_once(target: str, registers: int, shared: int, warps: int) -> str:
    """How many programs a multiprocessor holds, by its registers, shared memory and warps."""
    if target not in LIMITS:
        return "-"
    most, kilobytes, all_warps = LIMITS[target]
    # Registers are given to a warp in lots of 256, shared memory with 1 KiB of the system's.
    by_registers = most // (-(-registers * 32 // 256) * 256 * warps)
    return str(min(by_registers, kilobytes * 1024 // (shared + 1024), all_warps // warps))


if __name__ == "__main__":
    main()

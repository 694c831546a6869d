"""Graphs: an encoder as a program that runs without vergence, with torch alone or with any ONNX runtime."""

import io
import json
import logging
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from vergence.integrations.exports.source import Source, contract
from vergence.runs.run import write_bytes

OPSET = 18  # what onnxruntime and onnxruntime-web of 2023 and later all run


class Program(nn.Module):
    """An encoder that checks its input, takes bytes if asked, and gives ``h`` (and ``logits`` where it has a head)."""

    def __init__(self, source: Source, *, preprocess: bool):
        super().__init__()
        self.encoder, self.head = source.encoder, source.head
        self.dtype = torch.uint8 if preprocess else source.example.dtype
        self.preprocess = preprocess
        self.requires_grad_(False)

    def forward(self, x: Tensor) -> Any:
        # Bytes in a graph for numbers in [0, 1] would give an answer, and a wrong one.
        torch.ops.aten._assert_tensor_metadata.default(x, dtype=self.dtype)
        h = self.encoder(x.float() / 255 if self.preprocess else x)
        return h if self.head is None else (h, self.head(h))


def torch_program(source: Source, path: Path, *, preprocess: bool = False) -> list[Path]:
    """A torch.export program (.pt2): ``torch.export.load(path).module()(x)`` gives the representations."""
    program, example = _traced(source, preprocess=preprocess)
    known = json.dumps(contract(source, inside=True, preprocess=preprocess))
    made = io.BytesIO()  # torch would write to the place itself, in part where it cannot write all
    torch.export.save(_exported(program, example), made, extra_files={"vergence.json": known})
    return [write_bytes(path, made.getvalue())]


def onnx(source: Source, path: Path, *, preprocess: bool = False) -> list[Path]:
    """ONNX, opset 18, weights inside: input ``x``, output ``h`` (and ``logits``); any number of samples."""
    program, example = _traced(source, preprocess=preprocess)
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it lists the operators of libraries that are not there
    try:
        import onnx as library

        names: dict[str, Any] = {"input_names": ["x"], "output_names": ["h", "logits"][: 1 + (source.head is not None)]}
        made = torch.onnx.export(
            _exported(program, example), (), dynamo=True, opset_version=OPSET, verbose=False, optimize=True, **names
        )
    except ImportError as error:
        raise ImportError(f"ONNX needs an extra ({error}). Try: pip install 'vergence[onnx]'") from error
    assert made is not None
    model = made.model_proto
    known = contract(source, inside=True, preprocess=preprocess)
    for key, value in {"vergence": json.dumps(known), **_readable(known)}.items():
        model.metadata_props.add(key=key, value=value)
    library.checker.check_model(model)
    return [write_bytes(path, model.SerializeToString())]


def _traced(source: Source, *, preprocess: bool) -> tuple[Program, Tensor]:
    if preprocess and source.kind != "image":
        raise ValueError(f"--preprocess is for images, which come as bytes; the run was trained on {source.kind} data.")
    example = (255 * source.example).to(torch.uint8) if preprocess else source.example
    return Program(source, preprocess=preprocess).eval(), example


def _exported(program: Program, example: Tensor) -> torch.export.ExportedProgram:
    try:
        with torch.no_grad():
            return torch.export.export(program, (example,), dynamic_shapes=({0: torch.export.Dim("n", min=1)},))
    except Exception as error:  # the tracer raises whatever the traced line raises
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        raise ValueError(
            f"torch.export cannot trace this encoder ({reason}); --form safetensors holds its weights."
        ) from error


def _readable(known: dict[str, Any]) -> dict[str, str]:
    """The parts of the contract that people look for, under names of their own."""
    found = {
        name: json.dumps(known[name]) for name in ("input", "normalization", "output", "classes") if known.get(name)
    }
    return {**found, "sha256": known["sha256"]}

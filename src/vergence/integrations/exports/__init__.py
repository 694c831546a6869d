"""Exports: an encoder for other programs, in the form each of them reads, with what a caller must know."""

from vergence.integrations.exports.folders import hugging_face
from vergence.integrations.exports.graphs import onnx, torch_program
from vergence.integrations.exports.sentences import sentence_transformers
from vergence.integrations.exports.weights import safetensors, timm_weights, torchvision_weights
from vergence.tables import Table

# A row takes a Source, the path to write to and its options, and gives the files that it wrote.
EXPORTS = Table(
    "export form",
    {
        "safetensors": safetensors,
        "torch": torch_program,
        "onnx": onnx,
        "hf": hugging_face,
        "sentence-transformers": sentence_transformers,
        "timm": timm_weights,
        "torchvision": torchvision_weights,
    },
    room="exports",
)
SUFFIXES = {"safetensors": ".safetensors", "torch": ".pt2", "onnx": ".onnx", "timm": ".timm.safetensors"}
SUFFIXES |= {"torchvision": ".torchvision.safetensors"}  # a form that is not here writes a folder

__all__ = ["EXPORTS", "SUFFIXES"]

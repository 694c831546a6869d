"""The model card: measured figures, data, method, what a caller must know, and warnings; a snippet that runs."""

import json
from collections.abc import Iterator
from typing import Any

from vergence.integrations.exports.source import Source
from vergence.runs.results import TRAINED, FineTuning, Results

# How each form is used in a process without vergence. ``{file}`` is what was written.
SNIPPETS = {
    "safetensors": """
import json
from safetensors import safe_open

with safe_open("{file}", framework="pt") as file:
    contract = json.loads(file.metadata()["vergence"])
    weights = {{name: file.get_tensor(name) for name in file.keys()}}
print(contract["input"], contract["normalization"], len(weights))
""",
    "torch": """
import json
import torch

files = {{"vergence.json": ""}}
encoder = torch.export.load("{file}", extra_files=files).module()
contract = json.loads(files["vergence.json"])
x = torch.rand(4, *contract["input"]["shape"][1:])  # pixels in [0, 1]
h = encoder(x)
print(h.shape)
""",
    "onnx": """
import json
import numpy as np
import onnxruntime

session = onnxruntime.InferenceSession("{file}")
contract = json.loads(session.get_modelmeta().custom_metadata_map["vergence"])
x = np.random.rand(4, *contract["input"]["shape"][1:]).astype(np.float32)  # pixels in [0, 1]
(h,) = session.run(["h"], {{"x": x}})
print(h.shape)
""",
    "hf": """
import torch
from PIL import Image
from transformers import AutoImageProcessor, AutoModel

processor = AutoImageProcessor.from_pretrained("{file}")
model = AutoModel.from_pretrained("{file}"{trust})
image = Image.open("photo.jpg").convert("RGB")
edge = min(image.size)
left, top = (image.width - edge) // 2, (image.height - edge) // 2
inputs = processor(image.crop((left, top, left + edge, top + edge)), return_tensors="pt")
with torch.no_grad():
    print(model(**inputs).pooler_output.flatten(1).shape)
""",
    "timm": """
import json
import timm
import torch
from safetensors import safe_open
from safetensors.torch import load_file

with safe_open("{file}", framework="pt") as file:
    contract = json.loads(file.metadata()["vergence"])
model = timm.create_model(contract["timm"]["name"], **contract["timm"]["options"]).eval()
model.load_state_dict(load_file("{file}"))
mean, deviation = (torch.tensor(contract["normalization"][name]).view(-1, 1, 1) for name in ("mean", "deviation"))
x = torch.rand(4, *contract["input"]["shape"][1:])  # pixels in [0, 1]
print(model((x - mean) / deviation).shape)
""",
    "torchvision": """
import json
import torch
import torchvision
from safetensors import safe_open
from safetensors.torch import load_file

with safe_open("{file}", framework="pt") as file:
    contract = json.loads(file.metadata()["vergence"])
model = getattr(torchvision.models, contract["torchvision"]["name"])()
model.fc = torch.nn.Identity()
if contract["torchvision"]["stem"] != "7x7":
    model.conv1 = torch.nn.Conv2d(contract["input"]["shape"][1], 64, 3, padding=1, bias=False)
    model.maxpool = torch.nn.Identity()
model.load_state_dict(load_file("{file}"))
mean, deviation = (torch.tensor(contract["normalization"][name]).view(-1, 1, 1) for name in ("mean", "deviation"))
x = torch.rand(4, *contract["input"]["shape"][1:])  # pixels in [0, 1]
print(model.eval()((x - mean) / deviation).shape)
""",
}


# The lines that differ where bytes go in, and where there is a classifier.
BYTES = {
    "torch.rand(4, *contract": "torch.randint(0, 256, (4, *contract",
    'np.random.rand(4, *contract["input"]["shape"][1:]).astype(np.float32)  # pixels in [0, 1]': (
        'np.random.randint(0, 256, (4, *contract["input"]["shape"][1:]), dtype=np.uint8)  # pixels of 0 to 255'
    ),
    '["shape"][1:])  # pixels in [0, 1]': '["shape"][1:]), dtype=torch.uint8)  # pixels of 0 to 255',
}
CLASSES = {
    "h = encoder(x)": "h, logits = encoder(x)",
    '(h,) = session.run(["h"]': 'h, logits = session.run(["h", "logits"]',
    "print(h.shape)": 'print(h.shape, [contract["classes"][place] for place in logits.argmax(1)])',
}


def snippet(form: str, file: str, *, trust: bool = False, preprocess: bool = False, classes: bool = False) -> str:
    """The lines that use an export; empty for a form that has none here."""
    made = SNIPPETS.get(form, "").format(file=file, trust=", trust_remote_code=True" if trust else "").strip()
    changes = (BYTES if preprocess else {}) | (CLASSES if classes and form in ("torch", "onnx") else {})
    for old, new in changes.items():
        made = made.replace(old, new)
    return made


def card(source: Source, known: dict[str, Any], *, form: str, file: str = ".") -> str:
    """The card as Markdown with the header that Hugging Face reads."""
    config = source.config
    trust = form == "hf" and known["normalization"] is not None and known["normalization"]["inside"]
    variant = {"trust": trust, "preprocess": known["input"]["dtype"] == "uint8", "classes": source.head is not None}
    lines = [
        "---", "library_name: " + {"hf": "transformers", "timm": "timm"}.get(form, "vergence"), "tags:",
        "- feature-extraction", "- self-supervised", f"- {config.method}", "---", "", f"# {source.name}", "",
        _what(source), "", "## Measured", "", *_figures(source), "", "## Warnings", "", *_warnings(source), "",
        "## Use", "",
        "```python", snippet(form, file, **variant), "```", "", "What a caller must know:", "", "```json",
        json.dumps({key: known[key] for key in known if key != "training"}, indent=1), "```", "",
    ]  # fmt: skip
    return "\n".join(lines)


def _what(source: Source) -> str:
    """What it is and how it came about: method, data, epochs, and the labels that it has seen."""
    config, tuned = source.config, source.finetuning
    what = f"An encoder ({config.encoder}, {source.width} numbers for each {source.kind} sample)"
    labels = "with labels" if config.method == "supervised" else "without labels"
    made = f"trained with {config.method} on `{config.data}` for {config.epochs} epochs, {labels}"
    if source.head is None:
        return f"{what}, {made}."
    count = f"{tuned['count']:,} labels ({tuned['labels']}) of" if tuned else "labels of"
    return (
        f"{what} and a classifier of {len(source.classes)} classes: {made}, then fine-tuned with {count} the same data."
    )


def _figures(source: Source) -> list[str]:
    found = source.found
    rows = list(_rows(found, source)) if found is not None else []
    if not rows:
        return ["No accuracy was measured: the data had no labels, or the run was not examined."]
    return ["| what | figure | 95 % interval | test samples |", "|---|---|---|---|", *rows]


def _rows(found: Results, source: Source) -> Iterator[str]:
    for row in found.accuracy:
        name = "" if row.features == TRAINED else f"{row.features}, "
        yield _row(f"{name}{row.classifier}, {row.labels}", row.accuracy, row.low, row.high, row.n)
    for tuned in found.finetuning:
        yield from _tuned(tuned)
    for name in ("alignment", "uniformity", "effective_rank"):
        number = found.diagnostics.get(name)
        if number is not None and number.value is not None:
            yield _row(name.replace("_", " "), number.value, number.low, number.high, number.n)


def _tuned(found: FineTuning) -> Iterator[str]:
    for row in found.scores:
        yield _row(f"{row.features}, {found.labels} ({found.count} labels)", row.accuracy, row.low, row.high, row.n)


def _row(what: str, value: float, low: float | None, high: float | None, n: int | None) -> str:
    interval = "" if low is None or high is None else f"{low:.3f} to {high:.3f}"
    return f"| {what} | {value:.3f} | {interval} | {n if n is not None else ''} |"


def _warnings(source: Source) -> list[str]:
    """What a user of the encoder should hear: the verdict, faults, what training made worse, what was skipped."""
    found = source.found
    if found is None:
        return ["- The run was not examined: `vergence doctor` does it."]
    lines = [f"- The doctor's verdict: {found.verdict.label}. {found.verdict.sentence}"]
    lines += [f"- {each.fault}: {each.sentence}" for each in found.findings if each.level == "fault"]
    if found.changes is not None:
        lines.append(f"- Started from {found.changes.source}. {found.changes.sentence}")
    if found.skipped:
        lines.append(f"- {len(found.skipped)} files of the data could not be read.")
    return [*lines, "- Accuracies are on held-out samples of the same data; other data may be classified worse."]

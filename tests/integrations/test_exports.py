"""Exports: other programs get the same numbers, and are told what they must know."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from safetensors.torch import load_file

import vergence as vg
from vergence.config import Config
from vergence.integrations import exports
from vergence.integrations.exports import EXPORTS
from vergence.integrations.exports.folders import _resnet_names, described
from vergence.integrations.exports.source import Source, contract
from vergence.integrations.exports.weights import read_contract, torchvision_names
from vergence.runs import assembly


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run on color images with a fine-tuned model beside it."""
    rng = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("runs")
    x, y = rng.integers(0, 256, (60, 12, 12, 3), dtype=np.uint8), np.arange(60) % 2
    np.savez(folder / "x.npz", x=x, y=y)
    options = {"encoder": "convnet", "backbone": {"channels": (4, 8)}, "track": (), "quiet": True}
    vg.train(data=f"array:{folder}/x.npz", epochs=1, batch=20, run=folder / "run", **options)
    vg.finetune(folder / "run", labels=("all",), draws=1, steps=2, quiet=True)
    return folder / "run"


def pixels(n=5):
    return np.random.default_rng(1).integers(0, 256, (n, 3, 12, 12), dtype=np.uint8)


def expected(run):
    return vg.load(run).encode(pixels())


@pytest.mark.parametrize("preprocess", [False, True])
def test_onnx_gives_the_same_numbers_and_refuses_the_other_type(run, tmp_path, preprocess):
    path = tmp_path / "e.onnx"
    vg.export(run, form="onnx", output=path, preprocess=preprocess)
    session = onnxruntime.InferenceSession(path)
    floats, right = (pixels() / 255).astype(np.float32), pixels() if preprocess else (pixels() / 255).astype(np.float32)
    (h,) = session.run(["h"], {"x": right})
    np.testing.assert_allclose(h, expected(run), rtol=1e-5, atol=1e-5)
    with pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument, match="Unexpected input data type"):
        session.run(["h"], {"x": floats if preprocess else pixels()})
    known = json.loads(session.get_modelmeta().custom_metadata_map["vergence"])
    assert known == json.loads((tmp_path / "e.onnx.json").read_text())
    assert known["input"]["dtype"] == ("uint8" if preprocess else "float32")
    assert known["input"]["shape"] == [None, 3, 12, 12]
    assert known["output"]["shape"] == [None, 8]


@pytest.mark.parametrize("preprocess", [False, True])
def test_a_torch_program_gives_the_same_numbers_and_refuses_the_other_type(run, tmp_path, preprocess):
    path = tmp_path / "e.pt2"
    vg.export(run, output=path, preprocess=preprocess)
    program = torch.export.load(path).module()
    bytes_, floats = torch.from_numpy(pixels()), torch.from_numpy(pixels()).float() / 255
    right, wrong = (bytes_, floats) if preprocess else (floats, bytes_)
    np.testing.assert_allclose(program(right).numpy(), expected(run), rtol=1e-5, atol=1e-5)
    with pytest.raises((RuntimeError, AssertionError), match="dtype"):
        program(wrong)


@pytest.mark.parametrize(("form", "name"), [("torch", "e.onnx"), ("onnx", "e.pt2"), ("torch", "rows.npy")])
def test_a_name_that_says_another_form_is_refused_and_nothing_is_overwritten(run, tmp_path, form, name):
    (tmp_path / name).write_bytes(b"mine")
    with pytest.raises(ValueError, match=f"ends in .* and --form {form} writes"):
        vg.export(run, output=tmp_path / name, form=form)
    assert (tmp_path / name).read_bytes() == b"mine"


def test_a_classifier_goes_out_with_its_classes(run, tmp_path):
    tuned = run / "finetuned" / "all"
    vg.export(tuned, form="onnx", output=tmp_path / "c.onnx", preprocess=True)
    session = onnxruntime.InferenceSession(tmp_path / "c.onnx")
    h, logits = session.run(["h", "logits"], {"x": pixels()})
    classes = json.loads(session.get_modelmeta().custom_metadata_map["classes"])
    assert [classes[place] for place in logits.argmax(1)] == vg.load(tuned).predict(pixels())
    np.testing.assert_allclose(h, expected(tuned), rtol=1e-5, atol=1e-5)


def test_the_contract_says_what_a_caller_must_know(run, tmp_path):
    vg.export(run, form="safetensors", output=tmp_path / "e.safetensors")
    known = read_contract(tmp_path / "e.safetensors")
    assert known.keys() >= {"input", "normalization", "output", "sha256", "versions", "training"}
    assert known["input"].keys() >= {"shape", "layout", "dtype", "range", "color", "resize and crop"}
    assert known["normalization"]["inside"]
    weights = load_file(tmp_path / "e.safetensors")
    np.testing.assert_allclose(weights["0.mean"].flatten(), known["normalization"]["mean"])
    again = vg.export(run, form="torch", output=tmp_path / "e.pt2").to_dict()["sha256"]
    assert again == known["sha256"]
    card = (tmp_path / "e.safetensors.md").read_text()
    for word in ("simclr", "linear probe, all labels", "The doctor's verdict", "fine-tuned, all", "safe_open"):
        assert word in card


def test_weights_start_another_run(run, tmp_path):
    vg.export(run, form="safetensors", output=tmp_path / "e.safetensors")
    config = run.parent / "x.npz"
    parts = assembly.assemble(
        Config(
            data=f"array:{config}", batch=20, encoder="convnet", backbone={"channels": (4, 8)},
            start=str(tmp_path / "e.safetensors"),
        )
    )  # fmt: skip
    assert parts.start.words == ()
    h = parts.learner.encoder.eval()(torch.from_numpy(pixels()).float() / 255).detach().numpy()
    np.testing.assert_allclose(h, expected(run), rtol=1e-5, atol=1e-5)


def resnet(name, side):
    """An untrained encoder as a source, with batch norms that are not the identity."""
    torch.manual_seed(0)
    samples = vg.data.from_arrays(np.zeros((2, side, side, 3), np.uint8))
    config = Config(encoder=name, views="simclr")
    recipe = vg.views.build("simclr")
    encoder = assembly.build_encoder(config, samples, recipe).eval()
    for value in encoder.state_dict().values():
        if value.is_floating_point() and value.ndim == 1:
            value.uniform_(0.5, 1.5)
    return Source(encoder, recipe, config, "image", (3, side, side))


@pytest.mark.parametrize("name", ["resnet18", "resnet50"])
def test_torchvision_names_are_torchvisions(name):
    tensors, stem = torchvision_names(resnet(name, 96))
    assert stem == "7x7"
    assert torchvision_names(resnet(name, 32))[1] == "3x3"
    last = "bn3" if name == "resnet50" else "bn2"
    for key in ("conv1.weight", "bn1.running_mean", "layer1.0.conv1.weight", "layer2.0.downsample.0.weight"):
        assert key in tensors
    assert f"layer4.1.{last}.num_batches_tracked" in tensors
    assert len(tensors) == {"resnet18": 120, "resnet50": 318}[name]  # of torchvision's state_dict without fc
    renamed = _resnet_names(tensors)
    assert len(renamed) == len(tensors)
    assert "encoder.stages.0.layers.0.layer.0.convolution.weight" in renamed
    assert "encoder.stages.1.layers.0.shortcut.normalization.running_var" in renamed


def test_a_transformer_goes_out_before_and_after_it_was_used(tmp_path):
    """Its places of patches are kept between calls: those that a tracer made must not be."""
    source = resnet("vit", 32)
    EXPORTS["torch"](source, tmp_path / "e.pt2")
    EXPORTS["onnx"](source, tmp_path / "e.onnx")
    x = torch.rand(5, 3, 32, 32)
    h = source.encoder(x).detach().numpy()
    np.testing.assert_allclose(torch.export.load(tmp_path / "e.pt2").module()(x).numpy(), h, rtol=1e-5, atol=1e-5)
    (made,) = onnxruntime.InferenceSession(tmp_path / "e.onnx").run(["h"], {"x": x.numpy()})
    np.testing.assert_allclose(made, h, rtol=1e-5, atol=1e-5)


def test_an_encoder_that_cannot_be_traced_is_refused_in_a_sentence(tmp_path):
    packed = Source(vg.encoders.build("bigru", (6,)).eval(), vg.views.build("text"), Config(), "text", (6,))
    with pytest.raises(ValueError, match=r"torch\.export cannot trace this encoder .*safetensors"):
        EXPORTS["torch"](packed, tmp_path / "e.pt2")


def built(layers):
    """What the exported file makes of a list of layers; the rest of the file needs transformers."""
    file = Path(exports.__file__).parent / "modeling_vergence.py"
    wanted = ("Standardize", "Residual", "build")
    used = [node for node in ast.parse(file.read_text()).body if getattr(node, "name", "") in wanted]
    names = {"torch": torch, "nn": torch.nn}
    exec(compile(ast.Module(used, []), file.name, "exec"), names)
    return names["build"](layers)


@pytest.mark.parametrize("name", ["resnet18", "convnet", "mlp"])
def test_the_listed_layers_are_the_encoder(name):
    """What modeling_vergence.py builds from config.json computes what the encoder does."""
    source = resnet(name, 16)
    listed = json.loads(json.dumps(described(source.encoder)))
    again = built(listed)
    again.load_state_dict(source.encoder.state_dict())
    x = torch.rand(3, 3, 16, 16)
    torch.testing.assert_close(again.eval()(x), source.encoder(x))


def test_what_a_form_cannot_hold_is_refused_in_a_sentence(run, tmp_path):
    with pytest.raises(ValueError, match="names are those of ResNets"):
        vg.export(run, form="torchvision", output=tmp_path / "e")
    with pytest.raises(ValueError, match="--preprocess is for the forms that compute"):
        vg.export(run, form="safetensors", output=tmp_path / "e", preprocess=True)
    with pytest.raises(ValueError, match="Unknown export form 'onx'"):
        vg.export(run, form="onx")
    vectors = Source(torch.nn.Identity(), vg.views.build("tabular"), Config(), "vector", (4,))
    with pytest.raises(ValueError, match="--preprocess is for images"):
        EXPORTS["torch"](vectors, tmp_path / "e", preprocess=True)


@pytest.mark.parametrize(("form", "tuned"), [("safetensors", False), ("torch", False), ("torch", True), ("onnx", True)])
def test_the_snippet_of_a_card_runs_without_vergence(run, tmp_path, form, tuned):
    target = run / "finetuned" / "all" if tuned else run
    made = vg.export(target, form=form, output=tmp_path / "e.file", preprocess=tuned).to_dict()
    card = (tmp_path / "e.file.md").read_text()
    assert ("then fine-tuned with" in card) == tuned
    code = card.split("```python\n")[1].split("```")[0]
    blocked = "import sys\nsys.modules['vergence'] = None\n" + code
    found = subprocess.run([sys.executable, "-c", blocked], cwd=tmp_path, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert found.stdout.strip()
    assert made["files"]


def test_a_folder_of_layers_that_transformers_does_not_know_brings_its_code(run, tmp_path):
    vg.export(run, form="hf", output=tmp_path / "hf")
    config = json.loads((tmp_path / "hf" / "config.json").read_text())
    assert config["auto_map"]["AutoModel"] == "modeling_vergence.EncoderModel"
    assert config["hidden_size"] == 8
    assert (tmp_path / "hf" / "modeling_vergence.py").read_text().startswith('"""An encoder for transformers')
    assert json.loads((tmp_path / "hf" / "preprocessor_config.json").read_text())["do_normalize"] is False
    known = json.loads((tmp_path / "hf" / "vergence.json").read_text())
    assert known == contract(vg.integrations.exports.source.source(run), inside=True)

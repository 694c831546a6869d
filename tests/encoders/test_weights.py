"""Weights from files: matched by name or order, every misfit named, nothing run."""

import json

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from vergence import encoders
from vergence.encoders.weights import fit_in, read_weights


def network(width=4):
    return nn.Sequential(nn.Linear(3, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, 2))


@pytest.mark.parametrize("prefix", ["", "module.encoder_q.", "backbone."])
def test_a_prefix_of_the_file_is_left_out(prefix):
    source, target = network(), network()
    weights = {f"{prefix}{name}": value for name, value in source.state_dict().items()}
    found = fit_in(target, weights, source="w")
    assert (found.taken, found.wanted, found.words) == (8, 8, ())
    for name, value in target.state_dict().items():
        torch.testing.assert_close(value, source.state_dict()[name])


def test_every_tensor_that_does_not_fit_has_a_word():
    source, target = network(), network()
    weights = source.state_dict()
    weights["3.weight"] = torch.zeros(5, 4)  # another shape
    del weights["3.bias"]  # missing
    weights["fc.weight"] = torch.zeros(10, 2)  # surplus
    before = target.state_dict()["3.weight"].clone()
    found = fit_in(target, weights, source="w")
    assert found.taken == 6
    assert found.words == (
        "3.weight is [5, 4] in the file and [2, 4] in the encoder: it stays as it was initialized.",
        "3.bias [2] is not in the file: it stays as it was initialized.",
        "fc.weight [10, 2] of the file has no place in the encoder: it is left out.",
    )
    torch.testing.assert_close(target.state_dict()["3.weight"], before)


def test_the_same_network_under_other_names_is_matched_by_order():
    class Other(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.norm, self.second = (network()[place] for place in (0, 1, 3))
            self.classifier = nn.Linear(2, 7)

    source, target = Other(), network()
    found = fit_in(target, source.state_dict(), source="w")
    assert found.matched.startswith("order")
    assert (found.taken, found.words) == (
        8,
        (
            "classifier.weight [7, 2] of the file has no place in the encoder: it is left out.",
            "classifier.bias [7] of the file has no place in the encoder: it is left out.",
        ),
    )
    torch.testing.assert_close(target[3].weight, source.second.weight)


def test_torchvision_names_and_order_are_those_of_our_resnet():
    """The published files of ResNets list conv1, bn1, layer1.0.conv1, ...: block by block, the shortcut last."""
    ours = encoders.build("resnet18", (3, 96, 96))
    theirs = {f"t{place}": torch.randn_like(v) for place, v in enumerate(ours.state_dict().values()) if v.ndim}
    theirs |= {"fc.weight": torch.zeros(1000, 512), "fc.bias": torch.zeros(1000)}
    assert fit_in(ours, theirs, source="w").taken == 100


def test_nothing_that_fits_is_an_error_that_shows_both():
    with pytest.raises(ValueError, match=r"None of the 1 tensors of w fits.*'?a.b \[9, 9\].*0.weight \[4, 3\]"):
        fit_in(network(), {"a.b": torch.zeros(9, 9)}, source="w")


def test_weights_that_diverged_are_refused():
    weights = network().state_dict()
    weights["0.weight"] = weights["0.weight"] * float("nan")
    with pytest.raises(ValueError, match=r"0\.weight holds NaN"):
        fit_in(network(), weights, source="w")


def test_files_folders_shards_and_checkpoints_are_read(tmp_path):
    weights = dict(network().state_dict())
    save_file(weights, tmp_path / "w.safetensors")
    torch.save({"epoch": 3, "state_dict": weights}, tmp_path / "w.ckpt")
    torch.save({"student": {"a": torch.zeros(1)}, "teacher": weights}, tmp_path / "dino.pth")
    for name in ("w.safetensors", "w.ckpt", "dino.pth"):
        assert read_weights(tmp_path / name).keys() == weights.keys()
    shards = tmp_path / "sharded"
    shards.mkdir()
    names = list(weights)
    parts = {"a.safetensors": names[:3], "b.safetensors": names[3:]}
    for file, own in parts.items():
        save_file({name: weights[name] for name in own}, shards / file)
    table = {name: file for file, own in parts.items() for name in own}
    (shards / "model.safetensors.index.json").write_text(json.dumps({"weight_map": table}))
    assert read_weights(shards).keys() == weights.keys()
    with pytest.raises(ValueError, match="should hold one file of weights"):
        read_weights(tmp_path)


class Trap:
    def __reduce__(self):
        return (print, ("code ran",))


def test_a_file_with_code_is_refused_and_the_code_does_not_run(tmp_path, capsys):
    torch.save({"state_dict": Trap()}, tmp_path / "w.pt")
    with pytest.raises(ValueError, match="without running the code"):
        read_weights(tmp_path / "w.pt")
    assert "code ran" not in capsys.readouterr().out
    (tmp_path / "w.gif").touch()
    with pytest.raises(ValueError, match="not a file of weights"):
        read_weights(tmp_path / "w.gif")
    with pytest.raises(FileNotFoundError, match="no weights at"):
        read_weights(tmp_path / "nowhere")


def test_a_damaged_file_is_named_without_advice_to_run_its_code(tmp_path):
    (tmp_path / "weights.pth").write_text("garbage")
    with pytest.raises(ValueError, match="damaged, or holds more than tensors") as caught:
        read_weights(tmp_path / "weights.pth")
    assert "weights_only" not in str(caught.value)

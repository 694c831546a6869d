"""Depth: layers are counted from the input, and rates decay downwards."""

import pytest
import torch
from torch import nn

from vergence import encoders
from vergence.config import Optim
from vergence.learning import optimizers
from vergence.learning.depth import depths, scales


def test_the_layers_of_a_perceptron_with_its_norms():
    found = depths(encoders.build("mlp", (5,), hidden=(8, 4)))
    assert {name.split(".")[0]: layer for name, layer in found.items()} == {"1": 0, "2": 0, "4": 1, "5": 1}


def test_a_residual_block_is_one_layer():
    found = depths(encoders.build("resnet18", (3, 32, 32)))
    assert max(found.values()) == 8  # the stem, then eight blocks
    assert len({layer for name, layer in found.items() if name.startswith("3.")}) == 1


def test_the_blocks_of_a_transformer_follow_its_embeddings():
    class Transformer(nn.Module):
        def __init__(self):
            super().__init__()
            self.position = nn.Parameter(torch.zeros(1, 4))
            self.embedding = nn.Embedding(9, 4)
            self.layers = nn.ModuleList(nn.TransformerEncoderLayer(4, 2, 8) for _ in range(3))
            self.norm = nn.LayerNorm(4)

    found = depths(Transformer())
    assert found["position"] == 0
    assert {name.split(".")[1]: layer for name, layer in found.items() if name.startswith("layers")} == {
        "0": 2, "1": 3, "2": 4,
    }  # fmt: skip
    assert found["norm.weight"] == 4


@pytest.mark.parametrize("decay", [1.0, 0.5])
def test_the_rate_of_a_layer_is_decay_times_that_above_it(decay):
    encoder = encoders.build("mlp", (5,), hidden=(8, 4, 2), norm=False)
    found = scales(encoder, decay)
    assert [found[f"{place}.weight"] for place in (1, 3, 5)] == [decay**3, decay**2, decay]


def test_every_parameter_is_in_one_group_and_heads_keep_the_rate():
    learner = nn.ModuleDict({"encoder": encoders.build("mlp", (5,), hidden=(8, 4)), "projector": nn.Linear(4, 2)})
    made = optimizers.optimizer(learner, Optim(weight_decay=0.1), layer_decay=0.5)
    held = [parameter for group in made.param_groups for parameter in group["params"]]
    assert len(held) == len({id(parameter) for parameter in held}) == len(list(learner.parameters()))
    groups = {id(p): group for group in made.param_groups for p in group["params"]}
    assert groups[id(learner["projector"].weight)]["scale"] == 1.0
    assert groups[id(learner["encoder"][1].weight)]["scale"] == 0.25
    assert groups[id(learner["encoder"][1].weight)]["weight_decay"] == 0.1
    assert groups[id(learner["encoder"][2].weight)]["weight_decay"] == 0.0

"""Encoders: every row gives [n, width]; flows lose nothing; the residual perceptron starts at the identity."""

import pytest
import torch
from torch import nn

from vergence import features
from vergence.config import Config
from vergence.data import from_arrays
from vergence.encoders import ENCODERS, Standardize, build, cut, layers, mlp
from vergence.encoders.flow import additive_flow, affine_flow
from vergence.encoders.mlp import residual_mlp
from vergence.runs import assembly
from vergence.views import identity

SHAPES = {
    "mlp": (12,),
    "residual_mlp": (12,),
    "convnet": (3, 16, 16),
    "halfnet": (1, 14, 28),
    "alexnet": (3, 32, 32),
    "resnet18": (3, 32, 32),
    "resnet50": (3, 32, 32),
    "vit": (3, 16, 16),
    "vit_tiny": (3, 16, 16),
    "vit_small": (1, 16, 16),
    "temporal_convnet": (2, 40),
    "bigru": (9,),
    "bag": (9,),
    "transformer": (9,),
    "additive_flow": (12,),
    "affine_flow": (12,),
}


def sample(name: str, n: int = 3) -> torch.Tensor:
    shape = (n, *SHAPES[name])
    return torch.randint(1, 50, shape) if name in ("bigru", "bag", "transformer") else torch.rand(shape)


@pytest.mark.parametrize("name", list(ENCODERS))
def test_every_encoder_gives_a_representation_of_its_width(name):
    encoder = build(name, SHAPES[name]).eval()
    assert encoder(sample(name)).shape == (3, encoder.width)


@pytest.mark.parametrize("name", list(ENCODERS))
def test_a_sample_is_encoded_alone_in_evaluation_mode(name):
    encoder = build(name, SHAPES[name]).eval()
    x = sample(name)
    torch.testing.assert_close(encoder(x)[1:2], encoder(x[1:2]), rtol=1e-4, atol=1e-5)


def test_a_small_image_keeps_its_resolution_in_the_stem_and_a_large_one_does_not():
    small, large = (build("resnet18", (3, side, side)) for side in (32, 128))
    assert small[0].stride == (1, 1)
    assert large[0].stride == (2, 2)


def test_resnets_have_the_published_number_of_parameters():
    # 11,689,512 and 25,557,032 with the 1000-class layer of He et al.
    for name, width, published in (("resnet18", 512, 11_689_512), ("resnet50", 2048, 25_557_032)):
        count = sum(parameter.numel() for parameter in build(name, (3, 224, 224)).parameters())
        assert count + width * 1000 + 1000 == published


@pytest.mark.parametrize("flow", [additive_flow, affine_flow])
def test_a_flow_has_an_exact_inverse(flow):
    encoder = flow((20,), couplings=6, hidden=16).double()
    _disturb(encoder)
    x = torch.randn(5, 20, dtype=torch.float64)
    torch.testing.assert_close(encoder.inverse(encoder(x)), x, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("flow", [additive_flow, affine_flow])
def test_the_log_determinant_of_a_flow_is_that_of_its_jacobian(flow):
    encoder = flow((8,), couplings=4, hidden=16).double()
    _disturb(encoder)
    x = torch.randn(1, 8, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(lambda y: encoder(y), x)[0, :, 0]
    _, expected = torch.linalg.slogdet(jacobian)
    torch.testing.assert_close(encoder.with_log_determinant(x)[1][0], expected)


def test_the_residual_perceptron_starts_at_the_identity():
    encoder = residual_mlp((30,)).double()
    jacobian = torch.autograd.functional.jacobian(lambda y: encoder(y), torch.rand(1, 30, dtype=torch.float64))
    values = torch.linalg.svdvals(jacobian[0, :, 0])
    assert torch.log(values[0] / values[-1]) < 0.05


def test_padding_does_not_change_the_representation_of_a_text():
    encoder = build("bigru", (6,)).eval()
    tokens = torch.tensor([[5, 6, 7, 0, 0, 0]])
    # The backward direction reads the padding first, whose embedding is zero: only its own zero-input states differ.
    longer = torch.cat([tokens, torch.zeros(1, 0, dtype=torch.int64)], dim=1)
    torch.testing.assert_close(encoder(tokens), encoder(longer))


def test_standardized_data_have_zero_mean_and_unit_deviation():
    x = torch.rand(50, 3, 4, 4, dtype=torch.float64) * torch.tensor([1.0, 5.0, 0.1])[:, None, None] + 7
    y = Standardize((3, 4, 4)).double().measure(x)(x)
    torch.testing.assert_close(y.mean((0, 2, 3)), torch.zeros(3, dtype=torch.float64))
    torch.testing.assert_close(y.var((0, 2, 3), correction=0), torch.ones(3, dtype=torch.float64))


def test_a_constant_column_stays_finite():
    x = torch.full((10, 2), 3.0)
    assert torch.isfinite(Standardize((2,)).measure(x)(x)).all()


def test_a_head_ends_in_a_plain_linear_layer_unless_asked():
    assert isinstance(mlp([4, 8, 2])[-1], nn.Linear)
    assert isinstance(mlp([4, 8, 2], final_norm=True)[-1], nn.BatchNorm1d)


def test_an_unknown_encoder_names_the_nearest():
    with pytest.raises(ValueError, match="Did you mean 'resnet18'"):
        build("resnet_18", (3, 8, 8))


def test_an_encoder_of_a_missing_library_names_the_extra():
    with pytest.raises(ImportError, match=r"vergence\[timm\]"):
        build("timm:resnet18", (3, 32, 32))


def _disturb(module: nn.Module) -> None:
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))


LAYERS = {"mlp": 2, "residual_mlp": 5, "convnet": 3, "halfnet": 3, "alexnet": 7, "resnet18": 9, "additive_flow": 30}


@pytest.mark.parametrize(("name", "count"), LAYERS.items())
def test_the_layers_of_an_encoder_are_the_encoder(name, count):
    encoder, x = build(name, SHAPES[name]).eval(), sample(name)
    every = layers(encoder)
    assert len(every) == count
    torch.testing.assert_close(nn.Sequential(*every)(x), encoder(x))


def test_an_encoder_cut_at_a_layer_gives_the_mean_of_its_map():
    encoder, x = build("convnet", (3, 16, 16)).eval(), sample("convnet")
    shortened = cut(encoder, 2, (3, 16, 16)).eval()
    assert shortened.width == 64
    torch.testing.assert_close(shortened(x), encoder[:6](x).mean((2, 3)))
    assert cut(encoder, 3, (3, 16, 16)) is encoder


@pytest.mark.parametrize(
    ("name", "layer", "message"), [("convnet", 4, "from 1 to 3, got 4"), ("bigru", 1, "cannot be cut")]
)
def test_a_layer_that_is_not_there_is_refused(name, layer, message):
    with pytest.raises(ValueError, match=message):
        cut(build(name, SHAPES[name]), layer, SHAPES[name])


def test_a_run_may_take_an_inner_layer_for_its_representation():
    samples = from_arrays(torch.randint(0, 256, (8, 16, 16, 3), dtype=torch.uint8).numpy())
    parts = assembly.assemble(Config(data="memory", encoder="convnet", layer=2, batch=4), samples)
    assert features.extract(parts.learner.encoder, samples, parts.recipe).h.shape == (8, 64)


def test_features_by_layer_end_in_the_representation():
    encoder = nn.Sequential(Standardize((3, 16, 16)), build("convnet", (3, 16, 16)))
    samples = from_arrays(torch.randint(0, 256, (5, 16, 16, 3), dtype=torch.uint8).numpy())
    made = features.by_layer(encoder, samples, identity())
    assert [h.shape[1] for h in made] == [32, 64, 128]
    torch.testing.assert_close(made[-1], features.extract(encoder, samples, identity()).h)


def test_a_column_that_is_constant_in_training_does_not_explode_where_it_varies():
    x = torch.rand(50, 4, generator=torch.Generator().manual_seed(0))
    x[:, 2], x[:, 3] = 0.0, 1e6
    layer = Standardize((4,)).measure(x)
    assert layer(x)[:, 2:].abs().max() < 1e-3
    assert layer(torch.tensor([[0.5, 0.5, 0.0625, 2e6]])).abs().max() < 2
    assert torch.isfinite(Standardize((1,)).measure(torch.zeros(5, 1))(torch.ones(2, 1))).all()

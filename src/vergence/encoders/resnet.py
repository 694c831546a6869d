"""Residual networks, with the small stem for small images."""

from torch import Tensor, nn

from vergence.encoders.mlp import with_width

SMALL = 64  # pixels; up to this side the 3 x 3 stem without pooling, as all CIFAR and Tiny-ImageNet results use


def resnet18(shape: tuple[int, ...], *, zero_init: bool = True) -> nn.Module:
    """ResNet-18; images of at most 64 pixels get the CIFAR stem (3 x 3, no pooling).

    References:
        He et al. (2016). https://arxiv.org/abs/1512.03385
    """
    return _resnet(shape, Basic, (2, 2, 2, 2), zero_init)


def resnet50(shape: tuple[int, ...], *, zero_init: bool = True) -> nn.Module:
    """ResNet-50; images of at most 64 pixels get the CIFAR stem (3 x 3, no pooling).

    References:
        He et al. (2016). https://arxiv.org/abs/1512.03385
    """
    return _resnet(shape, Bottleneck, (3, 4, 6, 3), zero_init)


class Residual(nn.Module):
    """``relu(path(x) + shortcut(x))``."""

    def __init__(self, path: nn.Sequential, before: int, after: int, stride: int):
        super().__init__()
        self.path = path
        same = before == after and stride == 1
        self.shortcut = nn.Identity() if same else nn.Sequential(*_conv(before, after, 1, stride))
        self.activation = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.activation(self.path(x) + self.shortcut(x))


class Basic(Residual):
    """Two 3 x 3 convolutions."""

    expansion = 1

    def __init__(self, before: int, width: int, stride: int):
        path = nn.Sequential(*_conv(before, width, 3, stride), nn.ReLU(), *_conv(width, width, 3))
        super().__init__(path, before, width, stride)


class Bottleneck(Residual):
    """1 x 1, 3 x 3 (which carries the stride), 1 x 1 to four times the width."""

    expansion = 4

    def __init__(self, before: int, width: int, stride: int):
        after = width * self.expansion
        squeeze = [*_conv(before, width, 1), nn.ReLU(), *_conv(width, width, 3, stride), nn.ReLU()]
        super().__init__(nn.Sequential(*squeeze, *_conv(width, after, 1)), before, after, stride)


def _resnet(
    shape: tuple[int, ...], block: type[Basic] | type[Bottleneck], depths: tuple[int, ...], zero_init: bool
) -> nn.Module:
    small = max(shape[1:]) <= SMALL
    stem = _conv(shape[0], 64, 3) if small else _conv(shape[0], 64, 7, 2)
    layers: list[nn.Module] = [*stem, nn.ReLU(), *([] if small else [nn.MaxPool2d(3, stride=2, padding=1)])]
    before = 64
    for stage, depth in enumerate(depths):
        for number in range(depth):
            layers.append(block(before, 64 * 2**stage, 2 if stage and not number else 1))
            before = 64 * 2**stage * block.expansion
    module = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
    _initialize(module, zero_init)
    return with_width(module, before)


def _conv(before: int, after: int, kernel: int, stride: int = 1) -> list[nn.Module]:
    return [
        nn.Conv2d(before, after, kernel, stride=stride, padding=kernel // 2, bias=False),
        nn.BatchNorm2d(after),
    ]


def _initialize(module: nn.Module, zero_init: bool) -> None:
    for part in module.modules():
        if isinstance(part, nn.Conv2d):
            nn.init.kaiming_normal_(part.weight, mode="fan_out", nonlinearity="relu")
        elif isinstance(part, Residual) and zero_init and isinstance(part.path[-1], nn.BatchNorm2d):
            # Each block starts as its shortcut (Goyal et al. 2017, Sec. 5.1).
            nn.init.zeros_(part.path[-1].weight)

"""Small convolutional encoders for images and series."""

from torch import nn

from vergence.encoders.mlp import with_width
from vergence.encoders.resnet import Basic


def convnet(
    shape: tuple[int, ...],
    *,
    channels: tuple[int, ...] = (32, 64, 128),
    kernel: int = 3,
    stride: int = 2,
    blocks: tuple[int, ...] = (),
    final: int = 0,
) -> nn.Module:
    """Strided convolutions with batch norm and ReLU, then the mean over positions; the encoder for two cores.

    The default takes 5 MFLOP for an image of 32 x 32 and learns CIFAR-10 features in minutes without a GPU. With more
    time ``blocks`` and ``final`` are worth theirs: residual blocks behind each convolution, and a last 1 x 1 one.
    """
    if blocks and len(blocks) != len(channels):
        raise ValueError(f"blocks has a number for each of the {len(channels)} convolutions, got {len(blocks)}.")
    layers: list[nn.Module] = []
    before = shape[0]
    for after, count in zip(channels, blocks or [0] * len(channels), strict=True):
        layers += _convolution(before, after, kernel, stride)
        layers += [Basic(after, after, 1) for _ in range(count)]
        before = after
    if final:
        layers += _convolution(before, final, 1)
    return with_width(nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten()), final or before)


def _convolution(before: int, after: int, kernel: int, stride: int = 1) -> list[nn.Module]:
    return [
        nn.Conv2d(before, after, kernel, stride=stride, padding=kernel // 2, bias=False),
        nn.BatchNorm2d(after),
        nn.ReLU(),
    ]


def halfnet(shape: tuple[int, ...], *, channels: tuple[int, ...] = (64, 128), width: int = 100) -> nn.Module:
    """The convnet of Tschannen et al. for halves of digits: 5 x 5 convolutions with stride 2, layer norm, mean, dense.

    References:
        Tschannen et al. (2020), Sec. 3.3. https://arxiv.org/abs/1907.13625
    """
    before, layers = shape[0], []
    for after in channels:
        layers += [nn.Conv2d(before, after, 5, stride=2, padding=2), nn.ReLU()]
        before = after
    # One group over channels and positions is a layer norm over all three axes.
    layers += [nn.GroupNorm(1, before), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, width)]
    return with_width(nn.Sequential(*layers), width)


def alexnet(shape: tuple[int, ...], *, width: int = 4096) -> nn.Module:
    """The small AlexNet of Wang & Isola: five convolutions (96-192-384-384-192) and two wide linear layers.

    The second linear layer, their "fc7", is the representation; the authors project it to 128 dimensions.

    References:
        Wang & Isola (2020), App. B.1 and the released code. https://arxiv.org/abs/2005.10242
    """
    layers: list[nn.Module] = []
    before = shape[0]
    for number, after in enumerate((96, 192, 384, 384, 192)):
        layers += [nn.Conv2d(before, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU()]
        layers += [nn.MaxPool2d(2)] if number in (0, 1, 4) else []
        before = after
    side = 4  # 32 or 64 pixels both pool to at least 4 x 4; the pool makes the linear layer independent of the size
    layers += [nn.AdaptiveAvgPool2d(side), nn.Flatten()]
    for inputs in (before * side * side, width):
        layers += [nn.Linear(inputs, width, bias=False), nn.BatchNorm1d(width), nn.ReLU()]
    return with_width(nn.Sequential(*layers), width)


def temporal_convnet(
    shape: tuple[int, ...], *, channels: tuple[int, ...] = (64, 128, 128), kernel: int = 7
) -> nn.Module:
    """Strided convolutions along time with batch norm and ReLU, then the mean over time; the encoder of series."""
    layers: list[nn.Module] = []
    before = shape[0]
    for width in channels:
        layers += [
            nn.Conv1d(before, width, kernel, stride=2, padding=kernel // 2, bias=False),
            nn.BatchNorm1d(width),
            nn.ReLU(),
        ]
        before = width
    return with_width(nn.Sequential(*layers, nn.AdaptiveAvgPool1d(1), nn.Flatten()), before)

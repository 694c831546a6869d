"""Records what torchvision makes of given parameters in ``torchvision.npz``, so that the tests need no torchvision.

Run once, in an environment with torch, torchvision and numpy: ``python tests/data/record_torchvision.py``.
"""

import itertools
import re
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch

# Beside a CPU torch, torchvision's compiled operators may be missing; declaring their names lets it be imported.
META = Path(find_spec("torchvision").origin).with_name("_meta_registrations.py").read_text()
LIBRARY = torch.library.Library("torchvision", "DEF")
for NAME in set(re.findall(r'(?:register_meta\("|"torchvision::)(\w+)"', META)):
    LIBRARY.define(f"{NAME}(Tensor x) -> Tensor")

import torchvision  # noqa: E402
from torchvision.transforms import functional as F  # noqa: E402

ADJUST = (F.adjust_brightness, F.adjust_contrast, F.adjust_saturation, F.adjust_hue)


def images(generator: np.random.Generator, n: int, channels: int, height: int, width: int) -> np.ndarray:
    return generator.integers(0, 256, (n, channels, height, width), dtype=np.uint8)


def unit(x: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(x).float() / 255


def crops(generator: np.random.Generator, x: np.ndarray, size: int, *, step: int = 1) -> dict[str, np.ndarray]:
    height, width = x.shape[2:]
    sides = np.stack([generator.integers(1, height + 1, len(x)), generator.integers(1, width + 1, len(x))], axis=1)
    sides[0] = height, width
    corners = generator.integers(0, np.array([height, width]) - sides + 1)
    windows = np.concatenate([corners, sides], axis=1)
    flips = np.arange(len(x)) % 2 == 1
    views = [
        F.hflip(view) if flip else view
        for image, window, flip in zip(unit(x), windows.tolist(), flips, strict=True)
        for view in [F.resized_crop(image, *window, [size, size])]
    ]
    return {"x": x, "windows": windows, "flips": flips, "views": torch.stack(views)[..., ::step, ::step].numpy()}


def distortions(generator: np.random.Generator, x: np.ndarray) -> dict[str, np.ndarray]:
    order = np.array(list(itertools.permutations(range(4))))[: len(x)]
    factors = generator.uniform([0.2, 0.2, 0.2, -0.5], [1.8, 1.8, 1.8, 0.5], (len(x), 4)).astype(np.float32)
    views = []
    for image, row, places in zip(unit(x), factors.tolist(), order.tolist(), strict=True):
        for place in places:
            image = ADJUST[place](image, row[place])
        views.append(image)
    return {"x": x, "factors": factors, "order": order, "views": torch.stack(views).numpy()}


def blurs(x: np.ndarray, side: int) -> dict[str, np.ndarray]:
    sigma = np.geomspace(0.1, 2.0, len(x))
    views = [F.gaussian_blur(image, [side, side], [s, s]) for image, s in zip(unit(x), sigma.tolist(), strict=True)]
    return {"x": x, "sigma": sigma, "views": torch.stack(views).numpy()}


def main() -> None:
    generator = np.random.default_rng(0)
    colorful = images(generator, 24, 3, 6, 6)
    # A gray, a saturated and a black image: where hue and saturation have corners.
    colorful[0, :] = colorful[0, :1]
    colorful[1, 0], colorful[2] = 255, 0
    groups = {
        "crop": crops(generator, images(generator, 8, 3, 32, 32), 32),
        "crop_grey": crops(generator, images(generator, 4, 1, 28, 28), 28),
        "crop_smaller": crops(generator, images(generator, 6, 3, 40, 52), 16),
        # Every ninth pixel, to keep the file small.
        "crop_larger": crops(generator, images(generator, 2, 1, 20, 24), 224, step=9),
        "distortion": distortions(generator, colorful),
        "distortion_grey": distortions(generator, images(generator, 24, 1, 6, 6)),
        "blur": blurs(images(generator, 4, 3, 16, 12), 3),
        "blur_wide": blurs(images(generator, 3, 1, 32, 32), 23),
        "grey": {"x": colorful, "views": F.rgb_to_grayscale(unit(colorful), 3).numpy()},
    }
    arrays = {f"{group}.{name}": array for group, parts in groups.items() for name, array in parts.items()}
    np.savez_compressed(Path(__file__).with_name("torchvision.npz"), version=torchvision.__version__, **arrays)


if __name__ == "__main__":
    main()

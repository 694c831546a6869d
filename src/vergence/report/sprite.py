"""Sprite: all thumbnails of a page as one picture, so that each is stored once and shown anywhere."""

import base64
import io
from dataclasses import dataclass

import numpy as np
from jaxtyping import UInt8
from markupsafe import Markup
from PIL import Image

from vergence.report.pieces import piece

COLUMNS = 40
LARGEST_SIDE = 48  # pixels of a thumbnail in the file; the page shows them at 56 to 112
BUDGET = 600_000  # bytes of the picture: with 50,000 points beside it a page stays under 1.5 MB


@dataclass(frozen=True)
class Sprite:
    """``count`` thumbnails in rows of ``COLUMNS``, as a data address."""

    address: str
    count: int
    lines: int
    aspect: float
    crisp: bool
    columns: int = COLUMNS

    def thumbnail(self, number: int, text: str) -> Markup:
        """One thumbnail, with the words that stand for it."""
        return piece("thumbnail", number, self.columns, text)


def make_sprite(thumbnails: UInt8[np.ndarray, "m c height width"], *, budget: int = BUDGET) -> Sprite | None:
    """Thumbnails as one PNG; as a JPEG, and then fewer of them, when that would exceed ``budget`` bytes."""
    images = _small(thumbnails)
    while len(images):
        sheet = _sheet(images)
        for form, quality in (("png", 100), ("jpeg", 80), ("jpeg", 60)):
            data = _encoded(sheet, form, quality)
            if len(data) <= budget:
                address = f"data:image/{form};base64,{base64.b64encode(data).decode()}"
                height, width = images.shape[1:3]
                return Sprite(address, len(images), -(-len(images) // COLUMNS), width / height, max(height, width) < 32)
        images = images[: len(images) // 2]
    return None


def _small(thumbnails: np.ndarray) -> np.ndarray:
    """``[m, height, width, 3]``, no side above ``LARGEST_SIDE``. One channel is gray; beyond three, the first three."""
    images = np.moveaxis(thumbnails, 1, -1)
    images = np.repeat(images[..., :1], 3, axis=-1) if images.shape[-1] < 3 else images[..., :3]
    height, width = images.shape[1:3]
    scale = LARGEST_SIDE / max(height, width, 1)
    if scale >= 1 or not len(images):
        return images
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    return np.stack([np.asarray(Image.fromarray(image).resize(size, Image.Resampling.BOX)) for image in images])


def _sheet(images: np.ndarray) -> Image.Image:
    count, height, width, channels = images.shape
    lines = -(-count // COLUMNS)
    cells = np.zeros((lines * COLUMNS, height, width, channels), dtype=np.uint8)
    cells[:count] = images
    grid = cells.reshape(lines, COLUMNS, height, width, channels).swapaxes(1, 2)
    sheet = grid.reshape(lines * height, COLUMNS * width, channels)
    gray = bool((sheet == sheet[..., :1]).all())
    return Image.fromarray(np.ascontiguousarray(sheet[..., 0] if gray else sheet))


def _encoded(sheet: Image.Image, form: str, quality: int) -> bytes:
    buffer = io.BytesIO()
    sheet.save(buffer, form, quality=quality, optimize=True)
    return buffer.getvalue()

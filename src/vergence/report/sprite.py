"""Sprite: all thumbnails of a page as one picture, so that each is stored once and shown anywhere."""

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import UInt8
from markupsafe import Markup
from PIL import Image

from vergence.report.pieces import piece

COLUMNS = 40
LARGEST_SIDE = 64  # pixels of a thumbnail in the file; the page shows them at 48 to 80
PLAIN = 4  # a PNG may take the fourth part of the budget: photos are then stored as JPEG, drawings and digits exactly
BUDGET = 1_600_000  # bytes of the picture: with 100,000 points beside it a page stays under 5 MB


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


class Pictures:
    """The pictures of a page: thumbnails of samples by their place, and others that are added while it is written.

    Where there are no thumbnails a sample is its name, or its row.
    """

    def __init__(self, thumbnails: np.ndarray | None, names: Sequence[str] = ()):
        usable = thumbnails is not None and thumbnails.ndim == 4 and len(thumbnails)
        fitting = make_sprite(thumbnails) if usable else None  # type: ignore[arg-type]
        self.count = fitting.count if fitting else 0
        self.collected: list[np.ndarray] = list(thumbnails[: self.count]) if self.count else []  # type: ignore[index]
        self.names = names

    def sample(self, place: int) -> Markup:
        """The sample at a place, as a thumbnail or in words."""
        words = self.names[place] if place < len(self.names) else f"sample {place}"
        if place < self.count:
            return Sprite("", 0, 0, 1.0, False).thumbnail(place, words)
        return Markup('<span class="said">{}</span>').format(words)

    def add(self, picture: np.ndarray, words: str) -> Markup:
        """Another picture ``[c, h, w]`` of bytes, of the size of the thumbnails."""
        if self.collected and picture.shape[0] != self.collected[0].shape[0]:
            return Markup("")
        self.collected.append(_fitted(picture, self.collected[0].shape[1:] if self.collected else picture.shape[1:]))
        return Sprite("", 0, 0, 1.0, False).thumbnail(len(self.collected) - 1, words)

    def sprite(self) -> Sprite | None:
        """All of them as one picture."""
        whole = make_sprite(np.stack(self.collected), budget=2 * BUDGET) if self.collected else None
        return None if whole is None else replace(whole, count=self.count)


def _fitted(picture: np.ndarray, size: tuple[int, ...]) -> np.ndarray:
    """A picture in another size: a sprite has one."""
    if picture.shape[1:] == size:
        return picture
    channels = [np.asarray(Image.fromarray(channel).resize((size[1], size[0]))) for channel in picture]
    return np.stack(channels)


def make_sprite(
    thumbnails: UInt8[np.ndarray, "m c height width"], *, budget: int = BUDGET, quality: int = 85
) -> Sprite | None:
    """Thumbnails as one PNG; as a JPEG, and then fewer of them, when that would exceed ``budget`` bytes."""
    images = _small(thumbnails)
    while len(images):
        sheet = _sheet(images)
        for form, fine in (("png", 100), ("jpeg", quality), ("jpeg", 60)):
            most = budget if form == "jpeg" else budget // PLAIN
            top = sheet.crop((0, 0, sheet.width, max(1, sheet.height // 4)))
            if form == "png" and len(_encoded(top, form, fine)) > most:
                continue  # a part is no larger than the whole, and photos take long
            data = _encoded(sheet, form, fine)
            if len(data) <= most:
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

"""Encoder: a trained run ready for use, with the run's own preprocessing."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from vergence import features
from vergence.config import Config
from vergence.data import Samples, from_arrays
from vergence.data.images import pixels
from vergence.data.samples import Kind
from vergence.data.text import tokenized
from vergence.runs import assembly, finetuned, sentences
from vergence.runs.run import Run


def load(path: str | Path) -> "Encoder":
    """The encoder of a run directory, or of a folder that ``finetune`` left; its data need not be there any more."""
    place = Path(path)
    known: dict[str, Any]
    if sentences.is_model(place):
        reader, recipe = sentences.model_reader(place)
        known = {"kind": "text", "shape": (reader.length,), "tokens": reader.tokens}
        return Encoder(reader.encoder, recipe, Config(encoder=f"hf:{place}"), **known)
    tuned = finetuned.is_finetuned(place)
    run = finetuned.run_of(place) if tuned else Run(place)
    encoder, recipe, facts = assembly.trained_encoder(run)
    head: nn.Module | None = None
    classes: tuple[str, ...] = ()
    if tuned:
        encoder, head = finetuned.model_of(place, encoder.cpu())
        classes = tuple(finetuned.facts(place)["classes"])
    known = {"kind": facts["kind"], "shape": tuple(facts["shape"]), "tokens": assembly.tokens_of(run)}
    return Encoder(encoder, recipe, run.config, head=head, classes=classes, **known)


class Encoder:
    """A frozen encoder. ``encode(samples)`` gives ``h`` as an array ``[n, width]``, on samples as they come.

    Images may be paths, PIL images, or arrays ``[height, width]``, ``[height, width, channels]`` or a batch of them,
    bytes or numbers in [0, 1]; they are brought to the size the encoder was trained on. Texts are strings. Vectors and
    series are arrays of the shape it was trained on, one or a batch. A fine-tuned one has ``predict`` too.
    """

    def __init__(
        self,
        encoder: nn.Module,
        recipe: Any,
        config: Config,
        *,
        kind: str,
        shape: tuple[int, ...],
        head: nn.Module | None = None,
        classes: Sequence[str] = (),
        tokens: Any = None,
    ):
        self.encoder, self.recipe, self.config, self.kind, self.shape = encoder, recipe, config, kind, shape
        self.head, self.classes, self.tokens = head, tuple(classes), tokens

    @property
    def width(self) -> int:
        """How many numbers a representation has."""
        return int(self.encoder.width)  # type: ignore[arg-type]

    def __repr__(self) -> str:
        return f"Encoder({self.config.encoder}, {self.kind} {list(self.shape)} -> {self.width})"

    def encode(self, samples: Any) -> np.ndarray:
        """Representations of samples; a single sample gives one row."""
        return features.extract(
            self.encoder, Samples(self.prepared(samples), cast(Kind, self.kind)), self.recipe
        ).h.numpy()

    def predict(self, samples: Any) -> list[str]:
        """The class of each sample by name."""
        return [self.classes[place] for place in self.probabilities(samples).argmax(1)]

    def probabilities(self, samples: Any) -> np.ndarray:
        """The probability of every class for each sample, ``[n, classes]``, in the order of ``classes``."""
        if self.head is None:
            raise ValueError(
                "This encoder has no classifier: `vergence finetune RUN` makes one, and vg.load of the folder that it "
                "names has predict."
            )
        with torch.no_grad():
            return self.head(torch.from_numpy(self.encode(samples))).softmax(1).numpy()

    def prepared(self, samples: Any) -> Tensor:
        """Samples as the encoder's data source would give them."""
        if self.kind == "text":
            return self._tokens([samples] if isinstance(samples, str) else list(samples))
        if self.kind == "image":
            return self._images(samples)
        x = torch.as_tensor(np.asarray(samples, dtype=np.float32))
        x = x[None] if tuple(x.shape) == self.shape else x
        if tuple(x.shape[1:]) != self.shape:
            raise ValueError(f"The encoder takes samples of shape {list(self.shape)}, got {list(x.shape[1:])}.")
        return x

    def _tokens(self, texts: Sequence[Any]) -> Tensor:
        wrong = next((text for text in texts if not isinstance(text, str)), None)
        if wrong is not None:
            raise ValueError(f"The encoder takes texts, got {type(wrong).__name__}.")
        return tokenized(texts, tokens=self.tokens or "word", length=self.shape[-1])

    def _images(self, samples: Any) -> Tensor:
        if isinstance(samples, str | Path | Image.Image):
            samples = [samples]
        if isinstance(samples, np.ndarray | Tensor):
            return self._resized(_batch(samples, self.shape[0]))
        parts = [self._image(sample) for sample in samples]
        if not parts:
            raise ValueError("There is nothing to encode: an empty list.")
        return torch.cat(parts)

    def _image(self, sample: Any) -> Tensor:
        """One image as bytes of the encoder's size."""
        channels, height, _ = self.shape
        if isinstance(sample, str | Path):
            if not Path(sample).is_file():
                raise FileNotFoundError(f"There is no file {sample}.")
            with Image.open(sample) as image:
                return torch.from_numpy(pixels(image, size=height, channels=channels))[None]
        if isinstance(sample, Image.Image):
            return torch.from_numpy(pixels(sample.copy(), size=height, channels=channels))[None]
        return self._resized(_batch(sample, self.shape[0]))

    def _resized(self, x: Tensor) -> Tensor:
        """Bytes ``[n, channels, height, width]`` of any size in the encoder's; its channels must agree."""
        if x.shape[1] != self.shape[0]:
            raise ValueError(f"The encoder takes images of {self.shape[0]} channels, got {x.shape[1]}.")
        if tuple(x.shape[1:]) == self.shape:
            return x
        images = [Image.fromarray(_last_channel(image.numpy())) for image in x]
        return torch.cat([self._image(image) for image in images])


def _batch(x: Any, channels: int) -> Tensor:
    """One image or several, in any layout, as bytes ``[n, channels, height, width]``.

    Three axes are one image where the first or the last is its channels, and several gray images otherwise.
    """
    array = np.asarray(x.cpu() if isinstance(x, Tensor) else x)
    if (
        array.ndim == 2
        or (array.ndim == 3 and channels == 3 and 3 in (array.shape[0], array.shape[-1]))
        or (array.ndim == 3 and channels == 1 and array.shape[-1] == 1)
    ):
        array = array[None]
    return torch.as_tensor(from_arrays(array, kind="image").x)


def _last_channel(image: np.ndarray) -> np.ndarray:
    return image[0] if image.shape[0] == 1 else image.transpose(1, 2, 0)

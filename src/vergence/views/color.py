"""What a view's colors become: brightness, contrast, saturation and hue in each sample's own order, and gray."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vergence.types import FloatImages, Mask
from vergence.views.constants import constant, unasked

Factors = Float[Tensor, "n 4"]
Orders = Int[Tensor, "n 4"]

BRIGHTNESS, CONTRAST, SATURATION, HUE = range(4)
LUMA = (0.2989, 0.587, 0.114)  # ITU-R 601-2, with torchvision's digits
RANGES = (0.8, 0.8, 0.8, 0.2)  # of the four factors at strength 1: Chen et al. (2020), SimCLR, Appendix A


def jitter_parameters(draws: Float[Tensor, "n 8"], *, strength: float) -> tuple[Factors, Orders]:
    """Each sample's factors (three ratios around 1, a turn of the hue around 0) and their order, from uniform draws."""
    spread = strength * constant(RANGES, torch.float64, draws.device)
    middle = constant((1.0, 1.0, 1.0, 0.0), torch.float64, draws.device)
    low = (middle - spread).clamp(min=0.0).where(middle > 0, -spread)
    factors = low + (middle + spread - low) * draws[:, :4]
    return factors.float(), draws[:, 4:].argsort(dim=1)


def jitter(x: FloatImages, chosen: Mask, factors: Factors, order: Orders) -> FloatImages:
    """Brightness, contrast, saturation and hue of the chosen samples, each in its order, as ``ColorJitter`` does.

    Three of the four are one blend. Sorted by the place of the hue, the samples that blend before it at a place are the
    head of the batch and those that blend after it are the tail, so all work is in place on slices of one copy. On an
    accelerator, where the lengths of the slices would have to be read, all samples pass and the others are not blended.
    """
    if unasked(x):
        return _jitter_all(x, *(part.to(x.device) for part in (chosen, factors, order)))
    place, sequence = (order == HUE).int().argmax(dim=1).where(chosen, -1).sort(descending=True, stable=True)
    *later, m = (place[:, None] > torch.tensor([0, 1, 2, -1])).sum(dim=0).tolist()
    blends = _blends(factors[sequence], order[sequence])
    work = x.index_select(0, sequence)
    for k, head in enumerate(later):
        _blend_(work[:head], blends[k, :, :head])
    _turn_hue_(work[:m], factors[sequence[:m], HUE])
    for k, tail in enumerate(later):
        _blend_(work[tail:m], blends[k + 1, :, tail:m])
    return work.index_select(0, sequence.argsort())


def _jitter_all(x: FloatImages, chosen: Mask, factors: Factors, order: Orders) -> FloatImages:
    """``jitter`` without a shape that depends on values: who is not to be blended is blended with nothing."""
    place, work = (order == HUE).int().argmax(dim=1), x.clone()
    blends = _blends(factors, order)
    for k in range(HUE):
        _blend_(work, _only(blends[k], chosen & (place > k)))
    turned = work.clone()
    _turn_hue_(turned, factors[:, HUE])
    work = torch.where(chosen[:, None, None, None], turned, work)
    for k in range(HUE):
        _blend_(work, _only(blends[k + 1], chosen & (place <= k)))
    return work


def _only(blend: Float[Tensor, "3 n 1 1 1"], who: Mask) -> Float[Tensor, "3 n 1 1 1"]:
    """A blend for some samples; for the others all of the pixel and nothing else."""
    ratio, *parts = blend
    who = who[:, None, None, None]
    return torch.stack([torch.where(who, ratio, 1.0), *(torch.where(who, part, 0.0) for part in parts)])


def gray(x: FloatImages) -> Float[Tensor, "n 1 height width"]:
    """The luma of each pixel, in one channel."""
    if x.shape[1] == 1:
        return x
    red, green, blue = x.split(1, dim=1)
    return (red * LUMA[0]).add_(green * LUMA[1]).add_(blue * LUMA[2])


def _blends(factors: Factors, order: Orders) -> Float[Tensor, "4 3 n 1 1 1"]:
    """For each place in the order, how much of the pixel, of the mean gray and of the pixel's gray is blended."""
    ratio = factors.gather(1, order)
    parts = torch.stack([ratio, (1 - ratio) * (order == CONTRAST), (1 - ratio) * (order == SATURATION)])
    return parts.permute(2, 0, 1)[..., None, None, None]


def _blend_(x: FloatImages, blend: Float[Tensor, "3 n 1 1 1"]) -> None:
    """In place, ratio x + (1 - ratio) other, clamped: other is black, the mean gray, or the gray of each pixel."""
    ratio, mean_part, gray_part = blend
    shade = gray(x)
    # Two sums: threads may cut a single sum over an image differently in a small batch and a large one.
    mean = shade.sum(dim=2, keepdim=True).sum(dim=3, keepdim=True) / (x.shape[2] * x.shape[3])
    # Before x changes: with one channel the gray is x itself.
    other = (shade * gray_part).add_(mean * mean_part)
    x.mul_(ratio).add_(other).clamp_(0.0, 1.0)


def _turn_hue_(x: FloatImages, turn: Float[Tensor, " n"]) -> None:
    """In place, add a share of a whole turn to the hue, keeping HSV's value and saturation.

    With every channel relative to the smallest and in units of the largest difference, the hue in sixths of a turn is
    1 - red + green + blue on the green side of red and its negative on the blue side; no branches are needed.
    """
    if x.shape[1] == 1:
        return
    red, green, blue = x.unbind(dim=1)
    smallest = x.amin(dim=1)
    chroma = x.amax(dim=1).sub_(smallest)
    # A gray pixel has distance 0, and any hue will do.
    distance = (green + blue).sub_(red).sub_(smallest).add_(chroma).div_(chroma.clamp(min=torch.finfo(x.dtype).tiny))
    hue = distance.copysign_(green - blue).add_(6 * turn[:, None, None])
    hue.sub_((hue / 6).round_().mul_(6))
    parts = (2 - hue.abs(), (hue + 1).abs_().sub_(1), (hue - 1).abs_().sub_(1))
    for channel, part in zip((red, green, blue), parts, strict=True):
        colored = part.clamp_(0.0, 1.0).mul_(chroma)
        if torch.compiler.is_compiling():  # which cannot write a sum into a part of a tensor
            channel.copy_(colored.add_(smallest))
        else:
            torch.add(colored, smallest, out=channel)

"""The shape vocabulary: ``n`` samples, ``d`` dimensions, ``k`` negatives, ``c`` channels. Checked under pytest only."""

from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor

Scalar = Float[Tensor, ""]
Vector = Float[Tensor, " n"]
Embedding = Float[Tensor, "n d"]
Negatives = Float[Tensor, "k d"]
Scores = Float[Tensor, "n k"]
Square = Float[Tensor, "n n"]
Labels = Int[Tensor, " n"]
Mask = Bool[Tensor, " n"]
Keys = Int[Tensor, " n"]
Images = Float[Tensor, "n c height width"] | UInt8[Tensor, "n c height width"]
FloatImages = Float[Tensor, "n c height width"]

"""Class centers in feature space, and the classifier that they make."""

from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import one_hot

from vergence.theory.stability import Views
from vergence.types import Labels


def class_centers(features: Views, labels: Labels) -> tuple[Float[Tensor, "k d"], Float[Tensor, " k"]]:
    r"""The center of each class over its samples and their views, :math:`\mu_k = E_{x \in C_k} E_{x' \in A(x)} f(x')`,
    and the share of each class."""
    classes, positions = labels.unique(return_inverse=True)
    members = one_hot(positions, len(classes)).to(features.dtype)
    return members.T @ features.mean(1) / members.sum(0)[:, None], members.mean(0)


def nearest_center_classes(features: Views, labels: Labels) -> Int[Tensor, " n"]:
    r"""The class whose center is nearest to each sample's own features, those of its first view.

    The same as the linear classifier with rows :math:`\mu_k` and biases :math:`-\|\mu_k\|^2 / 2`.
    """
    centers, _ = class_centers(features, labels)
    scores = features[:, 0] @ centers.T - centers.square().sum(1) / 2
    return labels.unique()[scores.argmax(1)]


def nearest_center_error(features: Views, labels: Labels) -> float:
    """The share of samples that the nearest-center classifier gets wrong."""
    return (nearest_center_classes(features, labels) != labels).double().mean().item()


def chance_error(labels: Labels) -> float:
    """The error of always naming the largest class: an error bound of at least this is vacuous."""
    return 1 - labels.unique(return_counts=True)[1].amax().item() / len(labels)

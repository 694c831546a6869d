"""Is there a real encoder whose error the theory bounds below chance? Two digits, a short training, held-out images.

    python benchmarks/certificate.py

Embeddings of 2 dimensions trained with the linear contrastive loss: it asks for alignment and a mean of zero only, so
that two classes end at two opposite points. NT-Xent, which spreads embeddings over the whole sphere, is the contrast.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from vergence import data, encoders
from vergence.objectives import linear_contrastive, nt_xent
from vergence.theory import Certificate, augmented_distance, generalization_bound, lipschitz_estimate
from vergence.views import VIEWS, Recipe, sample_keys

OBJECTIVES = {"linear_contrastive": linear_contrastive, "nt_xent": nt_xent}
PAIRS = ((0, 1), (0, 4), (0, 7))
MILD = {"rotate": 10.0, "shear": 5.0, "zoom": 0.1, "translate": 0.05, "elastic": 0.0, "tone": 0.1, "cover": 0.0}
EPOCHS, BATCH, VIEWS_EACH, DIMENSION = 150, 64, 8, 2  # about 10 seconds of one core a training


def digits(classes: tuple[int, ...], split: str) -> data.Samples:
    samples = data.load("digits", split=split)
    return samples.take(torch.isin(samples.labels, torch.tensor(classes)).nonzero()[:, 0])


def trained(recipe: Recipe, x: Tensor, objective: str, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    encoder = encoders.build("convnet", (1, 8, 8), channels=(16, 32), stride=1)
    learner = nn.Sequential(encoder, encoders.mlp([encoder.width, 64, DIMENSION]))
    optimizer = torch.optim.AdamW(learner.parameters(), lr=2e-3)
    for epoch in range(EPOCHS):
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed + 1000 * epoch))
        for indices in order[: len(x) // BATCH * BATCH].split(BATCH):
            views = recipe(x[indices], sample_keys(seed, epoch, indices))
            loss = OBJECTIVES[objective](*[learner(view) for view in views])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return learner.eval()


@torch.no_grad()
def certificates(learner: nn.Module, recipe: Recipe, samples: data.Samples) -> dict[str, Certificate]:
    """The bound with concentration measured among features, in two forms of rho, and among pixels."""
    keys = sample_keys(99, 0, torch.arange(len(samples)))
    drawn = [recipe.view(samples.x, keys, number=number) for number in range(VIEWS_EACH - 1)]
    inputs = torch.stack([recipe.plain(samples.x), *drawn], 1)
    features = torch.stack([normalize(learner(inputs[:, number]), dim=1) for number in range(VIEWS_EACH)], 1).double()
    pixels = {
        "distance": augmented_distance(inputs.double()),
        "lipschitz": lipschitz_estimate(inputs.double(), features),
    }
    return {
        "features": generalization_bound(features, samples.labels),
        "features, measured": generalization_bound(features, samples.labels, rho="measured"),
        "pixels": generalization_bound(features, samples.labels, **pixels),
    }


def main() -> None:
    recipe = VIEWS["glyph"](**MILD)
    for classes in PAIRS:
        train, test = digits(classes, "train"), digits(classes, "test")
        for objective in OBJECTIVES:
            learner = trained(recipe, train.x, objective, seed=0)
            for space, found in certificates(learner, recipe, test).items():
                terms = {name: round(value, 3) for name, value in found.terms.items()}
                sides = f"{found.verdict}, error {found.left:.3f} <= {found.right:.3f}"
                print(f"digits {classes} {objective}, {space}: {sides}\n    {terms}", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()

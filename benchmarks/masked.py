"""What a short training by masked images changes in a ViT, beside the same ViT untrained, and what its loss means.

    python benchmarks/masked.py                              i_jepa and mae, a ViT of 3 blocks of width 64, 2 epochs
    python benchmarks/masked.py --only i_jepa --epochs 8     longer
    python benchmarks/masked.py --epochs 24 --look 2 4 8 16  judged after these epochs too

4,000 training images of CIFAR-10 in batches of 64, 1,000 held-out ones; VERGENCE_DATA may name a folder that has them.
I-JEPA predicts what a moving average of the encoder makes of hidden patches. Beside its loss stands what it would be if
the mean of each place over all images were predicted, and if the mean of the image were added to it: neither needs any
look at what a patch shows. *common* is the length of the mean representation as a share of the mean length, and *knn,
whitened* that of representations whose directions all have the same spread, so that none rules the distances.
"""

import argparse
import json

import torch
from torch import Tensor
from torch.nn import functional as F

from vergence import config, evaluation, features
from vergence.data import Samples, load
from vergence.diagnostics import effective_rank
from vergence.learning import loop, optimizers
from vergence.learning.masked import parts as transformer
from vergence.runs import assembly

IMAGES = 4000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=["i_jepa", "mae"])
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--depth", type=int, default=3)
    parser.add_argument("--look", type=int, nargs="*", default=[], help="epochs after which to judge")
    options = parser.parse_args()
    torch.set_num_threads(1)
    samples, held_out = load("cifar10", limit=IMAGES), load("cifar10", split="test", limit=5000)
    for method in options.only:
        settings = config.Config(
            data="cifar10", method=method, epochs=options.epochs, batch=64, limit=IMAGES, encoder="vit",
            backbone={"width": options.width, "depth": options.depth}, watching=config.Watching(every=0),
            optim=config.Optim(learning_rate=options.rate, warmup=0.5),
        )  # fmt: skip
        made = assembly.assemble(settings, samples)
        print(json.dumps({"method": method, "untrained": judged(made, held_out), "marks": marks(made)}), flush=True)
        optimizer = optimizers.optimizer(made.learner, made.config.optim)
        an_epoch, losses = IMAGES // 64, []
        for step in loop.fit(made.learner, optimizer, made.samples, made.recipe, made.config):
            losses.append(step.loss)
            if len(losses) in [an_epoch * number for number in (*options.look, options.epochs)]:
                told = {"steps": len(losses), "loss": round(sum(losses[-10:]) / 10, 3), "marks": marks(made)}
                print(json.dumps({"method": method, "trained": judged(made, held_out), **told}), flush=True)
                made.learner.train()


def whitened(train: Tensor, test: Tensor) -> tuple[Tensor, Tensor]:
    """Both, with every direction of the training rows that has more than a thousandth of the spread made equal."""
    mean = train.mean(0)
    _, spread, directions = torch.linalg.svd(train - mean, full_matrices=False)
    kept = spread > 1e-3 * spread[0]
    scaled = directions[kept].T / spread[kept]
    return (train - mean) @ scaled, (test - mean) @ scaled


def judged(made: assembly.Assembled, held_out: Samples) -> dict[str, float]:
    train = features.extract(made.learner.encoder, made.samples, made.recipe, limit=2000)
    test = features.extract(made.learner.encoder, held_out, made.recipe)
    assert train.labels is not None
    assert test.labels is not None
    arrays, mean = (train.h, train.labels, test.h, test.labels), test.h.mean(0)
    even = whitened(train.h, test.h)
    found = {
        "knn": evaluation.knn(*arrays).accuracy,
        "knn, whitened": evaluation.knn(even[0], train.labels, even[1], test.labels).accuracy,
        "probe": evaluation.linear_probe(*arrays).accuracy,
        "rank": effective_rank(test.h),
        "rank, centered": effective_rank(test.h - mean),
        "common": float(mean.norm() / test.h.norm(dim=1).mean()),
    }
    return {key: round(float(value), 3) for key, value in found.items()}


@torch.no_grad()
def marks(made: assembly.Assembled) -> dict[str, float]:
    """Losses of I-JEPA for predictions that look at no patch: 0, the mean of the place, and that of the image too."""
    before, vit = transformer(made.learner.encoder)
    vit = (
        made.learner.target.module if hasattr(made.learner, "target") else vit
    )  # the moving average is what is predicted
    tokens = vit.tokens(vit.fitted(before(made.recipe.plain(made.samples.x[:512]))))[:, len(vit.extra) :]
    target = F.layer_norm(tokens, tokens.shape[-1:])
    place, image, all_ = target.mean(0), target.mean(1, keepdim=True), target.mean((0, 1))

    def loss(predicted: Tensor) -> float:
        return round(float(F.smooth_l1_loss(predicted.expand_as(target), target)), 3)

    return {"zero": loss(torch.zeros(1)), "place": loss(place[None]), "place and image": loss(place + image - all_)}


if __name__ == "__main__":
    main()

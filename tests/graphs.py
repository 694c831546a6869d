"""Print how often a graph breaks in views and encoders: ``python graphs.py views:simclr encoders:mlp``.

A program of its own, since the shape checks that pytest puts around every function cannot be traced.
"""

import sys

import torch

from vergence.counters import sample_keys
from vergence.encoders import build
from vergence.views import build as build_views

SAMPLES = {
    "image": torch.randint(0, 256, (4, 3, 40, 40), dtype=torch.uint8),
    "vector": torch.randn(4, 8),
    "series": torch.randn(4, 2, 32),
    "text": torch.randint(1, 50, (4, 12)),
}
SAMPLES["any"] = SAMPLES["vector"]
SHAPES = {"mlp": (8,), "temporal_convnet": (2, 32)}

for room, name in (argument.split(":") for argument in sys.argv[1:]):
    torch._dynamo.reset()
    if room == "views":
        recipe = build_views(name)
        x = SAMPLES[recipe.kind]
        told = torch._dynamo.explain(recipe.fitted(x).views[0].draw)(x, sample_keys(0, 0, torch.arange(len(x))))
    else:
        shape = SHAPES.get(name, (3, 32, 32))
        told = torch._dynamo.explain(build(name, shape))(torch.rand(2, *shape))
    print(f"{room}:{name} {told.graph_break_count} {told.graph_count}", *(one.reason for one in told.break_reasons))

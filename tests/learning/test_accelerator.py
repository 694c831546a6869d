"""Nothing assumes the processor: all runs on a stand-in device that refuses to mix and counts what waits for it."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from narrow import narrow
from narrow import views as two_views
from stand_in import Away, Mixed, StandIn
from vergence import config as configs
from vergence import features
from vergence.config import Compute, Optim
from vergence.counters import sample_keys
from vergence.data import Samples
from vergence.diagnostics import DIAGNOSTICS, diagnose
from vergence.encoders import build
from vergence.learning import ahead, loop, optimizers
from vergence.methods import METHODS
from vergence.objectives import OBJECTIVES, pairwise
from vergence.runs import assembly, compute
from vergence.views import VIEWS
from vergence.views import build as build_views

SAMPLES = {
    "image": torch.randint(0, 256, (6, 3, 40, 40), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)),
    "vector": torch.randn(6, 8, generator=torch.Generator().manual_seed(0)),
    "series": torch.randn(6, 2, 32, generator=torch.Generator().manual_seed(0)),
    "text": torch.randint(1, 50, (6, 12), generator=torch.Generator().manual_seed(0)),
}
SAMPLES["any"] = SAMPLES["vector"]
NEEDS_NEGATIVES = {"effective_negatives", "false_negatives", "vanished_float16", "vanished_float32"}
NEEDS_PROTOTYPES = {"prototypes_used", "student_entropy", "teacher_entropy"}


def here(x):
    """The values of a tensor of the stand-in, not counted."""
    return x.here if isinstance(x, Away) else x


@pytest.fixture
def device():
    with StandIn() as stand_in:
        yield stand_in


def test_the_stand_in_refuses_to_mix(device):
    x = device.put(torch.ones(3))
    with pytest.raises(Mixed, match="cpu"):
        x + torch.ones(3)
    assert here(x + torch.tensor(1.0) + 1).tolist() == [3.0, 3.0, 3.0]


@pytest.mark.parametrize(
    ("waits", "asks"),
    {
        "item": (1, lambda x: x.sum().item()),
        "bool": (1, lambda x: bool(x.sum() > 0)),
        "cpu": (1, lambda x: x.cpu()),
        "tolist": (1, lambda x: x.tolist()),
        "nonzero": (1, lambda x: x.nonzero()),
        "mask": (1, lambda x: x[x > 0]),
        "unique": (1, lambda x: x.unique()),
        "number to tensor": (1, lambda x: x + torch.tensor([1.0, 2.0, 3.0], device=x.device)),
        "pageable": (1, lambda x: torch.ones(3).to(x.device, non_blocking=True)),
        "pinned": (0, lambda x: torch.ones(3).pin_memory().to(x.device, non_blocking=True)),
        "arithmetic": (0, lambda x: (x.sort().values.cumsum(0) * 2).where(x > 0, 0.0)),
    }.values(),
)
def test_the_stand_in_counts_what_makes_the_processor_wait(waits, asks, device):
    x = device.put(torch.tensor([3.0, 1.0, 2.0]))
    asks(x)
    assert len(device.waits) == waits, device.waits


@pytest.mark.parametrize("name", METHODS)
def test_a_step_of_every_method_stays_on_the_device_and_never_waits(name, device):
    learner, (views, labels) = device.put(narrow(name)), two_views()
    views, labels = [device.put(view) for view in views], device.put(labels)
    trainable = [parameter for parameter in learner.parameters() if parameter.requires_grad]
    optimizer = optimizers.optimizer(learner, Optim())
    for _ in range(2):  # the first brings constants to the device
        device.waits.clear()
        loss = learner(views, labels)
        if loss.requires_grad and trainable:
            loss.backward()
            loop.clip(learner, 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        learner.after_step(0.5)
    assert not device.waits, [str(wait) for wait in device.waits]
    assert loss.device == device.device


@pytest.mark.parametrize("name", optimizers.OPTIMIZERS)
def test_no_optimizer_waits(name, device):
    learner, (views, labels) = device.put(narrow("simclr")), two_views()
    optimizer = optimizers.optimizer(learner, Optim(name=name))
    for _ in range(2):
        device.waits.clear()
        learner([device.put(view) for view in views], device.put(labels)).backward()
        optimizer.step()
    assert not device.waits, [str(wait) for wait in device.waits]


@pytest.mark.parametrize("name", VIEWS)
def test_every_recipe_draws_on_the_device_the_views_that_it_draws_here(name, device):
    recipe = build_views(name)
    x = SAMPLES[recipe.kind]
    recipe, keys = recipe.fitted(x), sample_keys(0, 0, torch.arange(len(x)))
    beside = dict.fromkeys(recipe.fields, SAMPLES["text"])
    away = device.put(x), device.put(keys), {field: device.put(values) for field, values in beside.items()}
    recipe(*away)  # brings constants to the device
    device.waits.clear()
    made = recipe(*away)
    assert not device.waits, [str(wait) for wait in device.waits]
    for ours, theirs in zip(made, recipe(x, keys, beside), strict=True):
        torch.testing.assert_close(here(ours), theirs)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_every_objective_computes_on_the_device_what_it_computes_here(name, device):
    function = OBJECTIVES[name]
    generator = torch.Generator().manual_seed(1)
    positional = [p.name for p in inspect.signature(function).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    z = {p: torch.arange(10) % 3 if p == "labels" else torch.randn(10, 6, generator=generator) for p in positional}
    function(*map(device.put, z.values()))  # brings constants to the device
    away = [device.put(value).requires_grad_(value.is_floating_point()) for value in z.values()]
    device.waits.clear()
    loss = function(*away)
    (gradient,) = torch.autograd.grad(loss, away[:1])
    assert not device.waits, [str(wait) for wait in device.waits]
    plain = [value.clone().requires_grad_(value.is_floating_point()) for value in z.values()]
    expected = function(*plain)
    torch.testing.assert_close(here(loss.detach()), expected.detach())
    torch.testing.assert_close(here(gradient), torch.autograd.grad(expected, plain[:1])[0])


def test_a_learned_temperature_is_not_read_without_triton_either(device):
    z = [device.put(torch.randn(10, 6)) for _ in range(2)]
    learned = device.put(torch.tensor(0.1)).requires_grad_()
    device.waits.clear()
    for name in ("two_modal", "nt_xent", "info_nce", "siglip"):
        OBJECTIVES[name](*z, temperature=learned).backward()
    assert not device.waits, [str(wait) for wait in device.waits]


@pytest.mark.parametrize("objective", ["nt_xent", "dino"])
def test_a_diagnosis_copies_each_tensor_once_and_says_what_it_says_here(objective, device):
    """Every row of DIAGNOSTICS and FAULTS whose arguments are there; some belong to the other objective."""
    generator = torch.Generator().manual_seed(0)
    h, z1, words = (torch.randn(300, d, generator=generator) for d in (12, 6, 2))
    z2, labels = z1 + 0.1 * torch.randn(300, 6, generator=generator), torch.arange(300) % 3
    weights = {"0.weight": torch.randn(6, 12, generator=generator), "0.bias": torch.zeros(6)}
    here = {"h": h, "z1": z1, "z2": z2, "labels": labels, "words": words}
    away = {name: device.put(value) for name, value in here.items()}
    moved = {name: device.put(value) for name, value in weights.items()}
    known = {"objective": objective, "loss": 3.0, "batch": 64}
    ours, theirs = (diagnose(**x, projector=y, **known) for x, y in ((away, moved), (here, weights)))
    assert len(device.waits) == len(here) + len(weights), [str(wait) for wait in device.waits]
    assert rounded(ours) == rounded(theirs)
    elsewhere = NEEDS_NEGATIVES if objective == "dino" else NEEDS_PROTOTYPES
    assert set(DIAGNOSTICS) - set(ours.measured) == {"accuracy_without_copies"} | elsewhere  # there are no copies


def rounded(diagnosis):
    """What a diagnosis says, with numbers to eight digits: sums may differ by where the rows lie in memory."""
    return re.sub(r"-?\d+\.\d+(e-?\d+)?", lambda found: f"{float(found[0]):.8g}", str(diagnosis))


def test_features_wait_twice_a_chunk_for_samples_in_and_rows_out(device, monkeypatch):
    monkeypatch.setattr(features, "CHUNK", 2)
    samples, recipe = Samples(SAMPLES["vector"], "vector"), build_views("identity")
    encoder = build("mlp", (8,), hidden=(4,))
    expected = features.extract(encoder, samples, recipe).h
    encoder = device.put(encoder)
    device.waits.clear()
    made = features.extract(encoder, samples, recipe)
    torch.testing.assert_close(made.h, expected)
    assert len(device.waits) <= 2 * 3, [str(wait) for wait in device.waits]


def run_on(device, *, steps=8, batch=8, **options):
    """The parts of a small run on a device, and its optimizer."""
    samples = Samples(torch.randn(batch * steps, 8, generator=torch.Generator().manual_seed(0)), "vector")
    watching = {"every": 0}
    settings = {"data": "digits", "method": "simclr", "encoder": "mlp", "views": "tabular", "epochs": 1, "batch": batch}
    heads = {"projector": (16, 8)}
    config = configs.given(**settings, device=device, heads=heads, watching=watching, track=(), **options)
    parts = assembly.assemble(config, samples)
    return parts, optimizers.optimizer(parts.learner, parts.config.optim)


def fitted(parts, optimizer):
    return loop.fit(parts.learner, optimizer, parts.samples, parts.recipe, parts.config)


def test_training_waits_once_a_reading_and_gives_the_losses_and_weights_of_the_processor(device):
    parts, optimizer = run_on("standin", steps=8, compute={"read_every": 4})
    waits = []
    steps = []
    for step in fitted(parts, optimizer):
        steps.append(step)
        waits.append(len(device.waits))
    before = waits[0]  # constants and weights were brought to the device before the first step ended
    assert [count - before for count in waits] == [0, 0, 0, 1, 1, 1, 1, 2]
    assert all(step.known for step in steps)
    plain, own = run_on("cpu", steps=8)
    torch.testing.assert_close([step.loss for step in steps], [step.loss for step in fitted(plain, own)])
    for ours, theirs in zip(parts.learner.parameters(), plain.learner.parameters(), strict=True):
        torch.testing.assert_close(here(ours.detach()), theirs.detach())


def test_a_loss_that_is_not_finite_stops_training_at_the_next_reading(device):
    parts, optimizer = run_on(
        "standin", steps=8, compute={"read_every": 4}, optim={"learning_rate": 1e30, "warmup": 0.0}
    )
    with pytest.raises(loop.LossNotFinite):
        list(fitted(parts, optimizer))


class Noted:
    """A recipe that notes in the trace that a step begins: drawing its views is the first thing that it does."""

    def __init__(self, recipe, device):
        self.recipe, self.device, self.numbers = recipe, device, iter(range(1, 100))

    def __call__(self, *arguments):
        self.device.during = f"step {next(self.numbers)}"
        return self.recipe(*arguments)

    def __getattr__(self, name):
        return getattr(self.recipe, name)


def intervals(device, monkeypatch):
    """When each batch was copied and each step computed, on the clock of the device, by their numbers from 1."""
    parts, optimizer = run_on("standin", steps=5, compute={"read_every": 5})
    copies, plain = iter(range(1, 100)), ahead.Batch.to

    def copied(batch, *arguments, **options):
        with device.labeled(f"copy {next(copies)}"):
            return plain(batch, *arguments, **options)

    monkeypatch.setattr(ahead.Batch, "to", copied)
    device.trace.clear()
    list(loop.fit(parts.learner, optimizer, parts.samples, Noted(parts.recipe, device), parts.config))
    found = {}
    for ran in device.trace:
        start, end = found.get(ran.during, (ran.start, ran.end))
        found[ran.during] = min(start, ran.start), max(end, ran.end)
    return found


def overlap(first, second):
    return min(first[1], second[1]) - max(first[0], second[0]) > 0


def test_the_copy_of_the_next_batch_overlaps_the_step_of_this_one(device, monkeypatch):
    found = intervals(device, monkeypatch)
    for number in range(1, 5):
        assert overlap(found[f"copy {number + 1}"], found[f"step {number}"]), number
        assert found[f"copy {number}"][1] <= found[f"step {number}"][0], "a step waits for its own batch"


def test_without_a_stream_of_its_own_the_copy_stands_in_line(device, monkeypatch):
    monkeypatch.delattr(type(torch.standin), "Stream")
    found = intervals(device, monkeypatch)
    assert not any(overlap(found[f"copy {number + 1}"], found[f"step {number}"]) for number in range(1, 5))


def test_batches_come_in_order_and_none_is_lost(device):
    made = [ahead.Batch(torch.full((2,), float(k)), torch.full((2,), k), None, {}) for k in range(4)]
    assert [int(here(batch.x)[0]) for batch in ahead.on_device(iter(made), device.device)] == [0, 1, 2, 3]
    assert list(ahead.on_device(iter([]), device.device)) == []


def broken(names):
    """What breaks the graphs of views and encoders, by name: nothing, if each is one graph."""
    program = Path(__file__).parents[1] / "graphs.py"
    told = subprocess.run([sys.executable, program, *names], capture_output=True, text=True, check=True).stdout
    lines = dict(line.split(" ", 1) for line in told.splitlines() if line.startswith(("views:", "encoders:")))
    assert list(lines) == list(names)
    return {name: line for name, line in lines.items() if line.strip() != "0 1"}


def test_views_and_encoders_compile_as_one_graph():
    assert not broken(["views:simclr", "encoders:convnet"])


@pytest.mark.slow
def test_all_views_and_encoders_compile_as_one_graph():
    encoders = ["convnet", "resnet18", "mlp", "vit", "temporal_convnet"]
    assert not broken(
        [f"views:{name}" for name in VIEWS if name != "captions"] + [f"encoders:{name}" for name in encoders]
    )


def test_compiling_keeps_the_names_of_weights_and_the_views(monkeypatch):
    parts, _ = run_on("cpu")
    names, asked = list(parts.learner.state_dict()), []
    monkeypatch.setattr(torch, "compile", lambda f, **options: (asked.append(options), f)[1])
    monkeypatch.setattr(torch.nn.Module, "compile", lambda self, **options: asked.append(options))
    recipe = compute.compiled(parts.learner, parts.recipe, Compute(compile="reduce-overhead"))
    assert asked == [{"mode": "reduce-overhead", "fullgraph": True}] * 2  # the encoder, and the one way to draw a view
    assert list(parts.learner.state_dict()) == names
    x, keys = parts.samples.x[:4], torch.arange(4)
    torch.testing.assert_close(recipe(x, keys), parts.recipe(x, keys))
    assert compute.compiled(parts.learner, parts.recipe, Compute()) is parts.recipe


def test_options_reach_torch_and_the_kernel(monkeypatch):
    monkeypatch.setattr(pairwise, "KERNEL", "auto")
    try:
        compute.prepare(Compute(matmul="high", kernel="torch", deterministic=True))
        assert torch.get_float32_matmul_precision() == "high"
        assert pairwise.KERNEL == "torch"
        assert torch.are_deterministic_algorithms_enabled()
    finally:
        torch.set_float32_matmul_precision("highest")
        torch.use_deterministic_algorithms(False)


def test_the_loss_is_float32_under_autocast():
    learner, (views, labels) = narrow("simclr"), two_views()
    for precision in (None, torch.bfloat16):
        loss = loop._gradient(learner, views, labels, chunk=0, precision=precision)
        assert loss.dtype == torch.float32


def test_auto_takes_an_accelerator_only_where_there_is_one(monkeypatch):
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda *a, **o: torch.device("cuda"))
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    assert assembly.device(configs.Config()) == torch.device("cpu")

"""The Triton kernel, run by Triton's interpreter on the processor, equals the dense matrix of scores in float64.

``make test-kernel`` runs this file in an environment of its own; without triton it is skipped.
"""

import importlib.util
import itertools
import os
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize
from torch.utils._python_dispatch import TorchDispatchMode

os.environ["TRITON_INTERPRET"] = "1"  # read when programs are defined, those of triton itself among them
triton = pytest.importorskip("triton")
import triton.language as tl  # noqa: E402

from vergence import objectives  # noqa: E402
from vergence.objectives import pairwise  # noqa: E402


def loaded(name):
    """A module of the objectives as it is written: Triton reads source, and pytest's shape checks would rewrite it."""
    full = f"vergence.objectives.{name}"
    if full not in sys.modules:
        path = Path(objectives.__file__).with_name(f"{name}.py")
        spec = importlib.util.spec_from_file_location(full, path, loader=SourceFileLoader(full, str(path)))
        sys.modules[full] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        setattr(objectives, name, module)
    return sys.modules[full]


loaded("triton_tiles")
triton_pairwise = loaded("triton_pairwise")
triton_sigmoid = loaded("triton_sigmoid")

FORMS = ("two views", "itself", "two directions", "negatives")
SIZES = (1, 2, 3, 63, 64, 65, 127, 200, 256)
WIDTHS = (1, 3, 64, 128, 257)
TEMPERATURES = (0.01, 0.07, 0.5, 2.0, 10.0)


def directions(n, d, seed=0, dtype=torch.float64):
    z = torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return normalize(z, dim=1).to(dtype).requires_grad_()


def problem(form, n, d, dtype=torch.float64):
    """Rows, columns and the distance to the partner, for each way in which objectives use the kernel."""
    match form:
        case "two views":
            return directions(2 * n, d, dtype=dtype), None, n
        case "itself":
            return directions(n, d, dtype=dtype), None, None
        case "two directions":
            return directions(n, d, dtype=dtype), directions(n, d, 1, dtype), 0
    return directions(n, d, dtype=dtype), directions(n + 37, d, 1, dtype), None


def dense(rows, columns, temperature, partner):
    scores = rows @ (rows if columns is None else columns).T / temperature
    excluded = torch.zeros_like(scores, dtype=torch.bool)
    if columns is None:
        excluded |= torch.eye(len(rows), dtype=torch.bool)
    positive = scores.new_zeros(())
    if partner is not None:
        paired = torch.eye(len(rows), dtype=torch.bool).roll(partner, 1)
        excluded, positive = excluded | paired, scores[paired]
    kept = scores.masked_fill(excluded, -torch.inf)
    values = [kept.logsumexp(1) - positive]
    return torch.cat([*values, kept.logsumexp(0) - positive] if columns is not None and partner is not None else values)


def both(form, n, d, temperature, *, dtype=torch.float64, **options):
    """Values and gradients of the kernel, and those of the dense matrix in float64 on the same inputs."""
    rows, columns, partner = problem(form, n, d, dtype)
    inputs = [
        rows,
        columns,
        torch.tensor(temperature, dtype=torch.promote_types(dtype, torch.float32), requires_grad=True),
    ]
    wide = [None if x is None else x.detach().double().requires_grad_() for x in inputs]
    ours = torch.cat([x for x in triton_pairwise.log_sums(*inputs, partner, **options) if x is not None])
    theirs = dense(*wide, partner)
    weights = torch.rand(len(ours), dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    known = [x for x in inputs if x is not None], [x for x in wide if x is not None]
    gradients = (
        torch.autograd.grad((weights.to(values.dtype) * values).sum(), leaves)
        for values, leaves in zip((ours, theirs), known, strict=True)
    )
    return ours.detach(), theirs.detach(), *gradients


@pytest.mark.parametrize(("form", "n"), list(itertools.product(FORMS, SIZES)))
def test_values_and_gradients_are_the_dense_ones_at_every_width_and_temperature(form, n, monkeypatch):
    wide = {"WIDTH": max(16, triton.next_power_of_2(max(WIDTHS)))}  # one product a tile: the interpreter is slow
    monkeypatch.setattr(triton_pairwise, "BY_CORES", wide)
    for d, temperature in itertools.product(WIDTHS, TEMPERATURES):
        ours, theirs, gradients, expected = both(form, n, d, temperature)
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-6)
        torch.testing.assert_close(gradients, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("n", "d", "temperature"), [(65, 3, 0.01), (127, 130, 0.07), (64, 257, 0.01), (70, 64, 10.0)])
def test_float32_is_as_close_as_its_scores_can_be(form, n, d, temperature):
    ours, theirs, gradients, expected = both(form, n, d, temperature, dtype=torch.float32)
    # A unit inner product is known to 6e-8; divided by the temperature, so is a score.
    torch.testing.assert_close(ours.double(), theirs, rtol=0, atol=1e-6 * max(1, 1 / temperature))
    for ours, theirs in zip(gradients, expected, strict=True):
        assert (ours.double() - theirs).abs().max() <= 1e-5 * max(1, theirs.abs().max())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("form", FORMS)
def test_half_precision_is_accumulated_in_float32(form, dtype):
    ours, theirs, gradients, expected = both(form, 65, 200, 0.05, dtype=dtype)
    assert ours.dtype == torch.float32
    torch.testing.assert_close(ours.double(), theirs, rtol=0, atol=1e-6 / 0.05)
    for ours, theirs in zip(gradients, expected, strict=True):
        # Only the result is rounded: by half a unit in the last place, and a little for the sums.
        rounding = 0.51 * torch.finfo(ours.dtype).eps * theirs.abs() + 1e-5 * theirs.abs().max()
        assert ((ours.double() - theirs).abs() <= rounding).all()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("n", "d"), [(3, 3), (65, 130)])
def test_the_deterministic_backward_pass_is_the_same(form, n, d):
    ours, theirs, gradients, expected = both(form, n, d, 0.07, deterministic=True)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-6)
    torch.testing.assert_close(gradients, expected, rtol=0, atol=1e-5)


def test_torch_says_whether_the_backward_pass_is_deterministic(monkeypatch):
    chosen = []
    for name in ("owned", "added"):
        function = getattr(triton_pairwise._Launch, name)
        noted = lambda *a, _name=name, _function=function, **o: (chosen.append(_name), _function(*a, **o))[1]
        monkeypatch.setattr(triton_pairwise._Launch, name, noted)
    both("two views", 3, 3, 0.5)
    torch.use_deterministic_algorithms(True)
    try:
        both("two views", 3, 3, 0.5)
    finally:
        torch.use_deterministic_algorithms(False)
    assert chosen == ["added", "owned"]


@pytest.mark.parametrize("form", FORMS)
def test_patches_of_several_tiles_join_their_sums(form, monkeypatch):
    monkeypatch.setattr(triton_pairwise, "PATCHES", 2)
    monkeypatch.setattr(triton_pairwise, "SIDE", 16)
    ours, theirs, gradients, expected = both(form, 65, 3, 0.02)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-6)
    torch.testing.assert_close(gradients, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("form", "forward", "backward"), [("two views", 10, 3 * 10 - 4), ("two directions", 4, 3 * 4)])
def test_a_tile_is_computed_once_for_both_of_its_sides(form, forward, backward, monkeypatch):
    """127 pairs: 4 x 4 tiles of the rows with themselves, of which 10 are on or above the diagonal; 2 x 2 of two sides.

    Backward a tile is multiplied once more for its rows and once for its columns, but not on the diagonal.
    """
    from triton.runtime.interpreter import InterpreterBuilder

    products, plain = [], InterpreterBuilder.create_dot
    monkeypatch.setattr(InterpreterBuilder, "create_dot", lambda *a: (products.append(1), plain(*a))[1])
    rows, columns, partner = problem(form, 127, 16)
    made = triton_pairwise.log_sums(rows, columns, 0.1, partner, deterministic=False)
    assert len(products) == forward
    torch.cat([values for values in made if values is not None]).sum().backward()
    assert len(products) - forward == backward


@triton.jit
def _unmasked(weights, out, n, SIDE: tl.constexpr):
    """The sum of n weights in blocks, whose mask forgets where each starts; what is past the end counts 0 times."""
    at, total = tl.arange(0, SIDE), 0.0
    for start in range(0, n, SIDE):
        read = tl.load(weights + start + at, mask=at < n, other=0.0)
        total += tl.sum(tl.where(start + at < n, 1.0, 0.0) * read)
    tl.store(out, total)


@pytest.mark.parametrize("n", [64, 65, 100, 127])
def test_a_mask_that_forgets_where_its_block_starts_reads_past_the_end(n):
    """Inf-CL's backward pass over keys loads ``LSE`` and its gradient behind ``mask=offs_m < seqlen_q``, at
    ``offs_m + start_m``: where the length is no multiple of 64 it reads past the end, and 0 times what it finds
    there, if that is NaN or infinite, spoils the gradient of every key.

    https://github.com/DAMO-NLP-SG/Inf-CLIP/blob/d9f2833/inf_cl/flash.py, ``_dk_prob_bwd_kernel``. Cheng et al. (2024),
    https://arxiv.org/abs/2410.17243
    """
    beyond, out = torch.full((128,), torch.nan), torch.zeros(1)
    beyond[:n] = 1.0
    _unmasked[(1,)](beyond, out, n, SIDE=64)
    assert bool(out.isnan()) == (n % 64 != 0)  # the mistake, as they make it


def strays(monkeypatch, action):
    """How many numbers ``action`` reads or writes, in programs of Triton, outside of the tensors they were given."""
    from triton.runtime.interpreter import GridExecutor, InterpreterBuilder

    count, places = 0, []

    def launched(self, arguments, named, plain=GridExecutor._init_args_hst):
        tensors = [x for x in (*arguments, *named.values()) if isinstance(x, torch.Tensor)]
        places[:] = [(x.data_ptr(), x.data_ptr() + x.numel() * x.element_size()) for x in tensors]
        return plain(self, arguments, named)

    def watched(name, pointers, mask):
        plain = getattr(InterpreterBuilder, name)

        def operation(*arguments):
            nonlocal count
            asked = arguments[pointers].data[arguments[mask].data]
            known = [(asked >= first) & (asked < end) for first, end in places]
            count += int((~np.logical_or.reduce(known)).sum())
            return plain(*arguments)

        monkeypatch.setattr(InterpreterBuilder, name, operation)

    monkeypatch.setattr(GridExecutor, "_init_args_hst", launched)
    watched("create_masked_load", 1, 2)
    watched("create_masked_store", 1, 3)
    watched("create_atomic_rmw", 2, 4)
    action()
    return count


def test_the_watch_sees_a_number_past_the_end(monkeypatch):
    out, weights = torch.zeros(1), torch.ones(128)[:65]
    assert strays(monkeypatch, lambda: _unmasked[(1,)](weights, out, 65, SIDE=64)) == 63


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("n", "d"), [(1, 3), (65, 17), (127, 16)])
def test_no_number_outside_of_the_tensors_is_touched(form, n, d, deterministic, monkeypatch):
    assert not strays(monkeypatch, lambda: both(form, n, d, 0.1, deterministic=deterministic))


@pytest.mark.parametrize("n", [2, 65])
def test_siglip_touches_nothing_outside_either(n, monkeypatch):
    monkeypatch.setattr(pairwise, "KERNEL", "triton")
    assert not strays(monkeypatch, lambda: objectives.siglip(directions(n, 17), directions(n, 17, 1)))


class Reads(TorchDispatchMode):
    """Counts how often a value of a tensor is asked for by Python, for which a GPU would have to be waited for."""

    count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += function in (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.is_nonzero.default)
        return function(*args, **(kwargs or {}))


def test_a_learned_temperature_is_never_read_by_the_processor():
    rows, columns, partner = problem("two directions", 10, 3)
    temperature = torch.tensor(0.1, requires_grad=True)
    with Reads() as reads:
        torch.cat(triton_pairwise.log_sums(rows, columns, temperature, partner)).sum().backward()
    assert reads.count == 0
    assert temperature.grad is not None


def test_a_second_derivative_is_refused():
    rows = directions(6, 3)
    with pytest.raises(RuntimeError, match="no second derivative"):
        torch.autograd.grad(triton_pairwise.log_sums(rows, None, 0.1)[0].sum(), rows, create_graph=True)


RIDERS = {
    "nt_xent": {"temperature": 0.2},
    "info_nce": {"temperature": 0.02},
    "decoupled": {},
    "flat_nce": {},
    "revised_info_nce": {},
    "two_modal": {},
    "uniformity": {},
    "align_uniform": {},
}


@pytest.mark.parametrize("name", RIDERS)
def test_objectives_ride_on_it(name, monkeypatch):
    ours, theirs = (objective_and_gradient(kernel, name, RIDERS[name], monkeypatch) for kernel in ("triton", "torch"))
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("name", ["info_nce", "align_uniform"])
def test_objectives_with_negatives_ride_on_it(name, monkeypatch):
    options = {"negatives": directions(70, 5, 7).detach()}
    ours, theirs = (objective_and_gradient(kernel, name, options, monkeypatch) for kernel in ("triton", "torch"))
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize(
    ("n", "d", "temperature", "bias"), [(2, 3, 10.0, -10.0), (65, 20, 10.0, -10.0), (9, 5, 0.1, 3.0)]
)
def test_siglip_rides_on_the_tiles(n, d, temperature, bias, monkeypatch):
    made = []
    for kernel in ("triton", "torch"):
        monkeypatch.setattr(pairwise, "KERNEL", kernel)
        learned = [torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in (temperature, bias)]
        inputs = [directions(n, d, seed) for seed in (3, 4)]
        loss = objectives.siglip(*inputs, temperature=learned[0], bias=learned[1])
        made.append((loss.detach(), *torch.autograd.grad(loss, [*inputs, *learned])))
    torch.testing.assert_close(*made)
    scores = (inputs[0] @ inputs[1].T * temperature + bias) * (2 * torch.eye(n) - 1)
    torch.testing.assert_close(made[0][0], -torch.nn.functional.logsigmoid(scores).sum().detach() / n)


def objective_and_gradient(kernel, name, options, monkeypatch):
    calls, plain = [], triton_pairwise.log_sums
    monkeypatch.setattr(pairwise, "KERNEL", kernel)
    monkeypatch.setattr(triton_pairwise, "log_sums", lambda *a, **o: (calls.append(1), plain(*a, **o))[1])
    z = [3 * directions(9, 5, seed).detach() for seed in (3, 4)][: 1 if name == "uniformity" else 2]
    z = [one.requires_grad_() for one in z]
    loss = objectives.OBJECTIVES[name](*z, **options)
    monkeypatch.setattr(triton_pairwise, "log_sums", plain)
    assert bool(calls) == (kernel == "triton")
    return loss, *torch.autograd.grad(loss, z)

"""A stand-in for an accelerator: its tensors live in this process's memory, but behave as if they were elsewhere.

``with StandIn() as device: x.to(device.device)`` gives tensors of a device of its own, ``standin:0``. Operations run on
the processor. As on CUDA, an operation that mixes them with tensors of the processor is an error (single numbers may
mix), and whatever would make the processor wait for the device is counted in ``device.waits``: reading a value
(``.item()``, ``.cpu()``, ``bool()``, ``tolist()``), shapes that depend on values (``nonzero``, masks as an index,
``unique``), and copies to the device from memory that is not pinned.

Streams are timed on a clock that ticks with each operation issued: one takes a tick in its stream, a copy between
devices twenty, at the earliest when it was issued, and a stream that waits for an event does not start before it.
``device.trace`` holds what ran when.
"""

import sys
import traceback
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils.backend_registration import (
    _DummyBackendModule,
    _DummyPrivateUse1Hook,
    _setup_privateuseone_for_python_backend,
)

aten = torch.ops.aten
NAME = "standin"
COPY = 20  # ticks: between devices numbers travel ten or more times as slowly as within one
READS = {aten._local_scalar_dense.default, aten.is_nonzero.default, aten.equal.default, aten.item.default}
SHAPED_BY_VALUES = {
    aten.nonzero.default,
    aten.masked_select.default,
    aten._unique2.default,
    aten.unique_dim.default,
    aten.unique_consecutive.default,
    aten.bincount.default,
    aten.repeat_interleave.Tensor,
    aten.repeat_interleave.self_Tensor,
}
COPIES = {aten._to_copy.default, aten.copy_.default}
# What the number of classes or bins bounds beforehand does not wait: torch.histc, scatter_add and the like.


class Mixed(RuntimeError):
    """An operation met tensors of two devices."""


class Away(torch.Tensor):
    """A tensor of the stand-in device, with its values in ``here``."""

    @staticmethod
    def __new__(cls, here):
        return torch.Tensor._make_wrapper_subclass(
            cls,
            here.size(),
            strides=here.stride(),
            storage_offset=here.storage_offset(),
            dtype=here.dtype,
            layout=here.layout,
            device=torch.device(NAME, 0),
            requires_grad=here.requires_grad,
        )

    def __init__(self, here):
        self.here = here.detach()

    def __repr__(self):
        return f"Away({self.here!r})"

    def tolist(self):
        return self.cpu().tolist()

    def numpy(self):
        raise TypeError("can't convert a stand-in device tensor to numpy: use .cpu() first")

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        raise RuntimeError("A tensor of the stand-in device was used outside of `with StandIn()`.")


@dataclass
class Wait:
    """Something the processor waited for: which operation, and the lines of the project that asked for it."""

    operation: str
    where: str

    def __str__(self):
        return f"{self.operation} at {self.where}"


@dataclass
class Ran:
    """One operation on the clock of its stream."""

    operation: str
    stream: str
    start: int
    end: int
    during: str = ""


@dataclass
class Stream:
    """A queue of operations; what is issued starts when the one before it ended."""

    name: str
    free: int = 0

    def wait_stream(self, other):
        self.free = max(self.free, other.free)

    def wait_event(self, event):
        self.free = max(self.free, event.time)

    def record_event(self, event=None):
        event = event or Event()
        event.time = self.free
        return event

    def synchronize(self):
        _current().wait("synchronize")


@dataclass
class Event:
    time: int = 0

    def record(self, stream=None):
        self.time = (stream or _current().stream).free

    def wait(self, stream=None):
        (stream or _current().stream).wait_event(self)

    def synchronize(self):
        _current().wait("synchronize")


class Module(_DummyBackendModule):
    """What ``torch.standin`` offers, as ``torch.cuda`` does."""

    numbers = count(1)
    Event = Event

    def is_available(self):
        return bool(_active)

    def device_count(self):
        return 1

    def Stream(self, device=None):
        return Stream(f"side {next(self.numbers)}")

    def current_stream(self, device=None):
        return _current().stream

    @contextmanager
    def stream(self, stream):
        device = _current()
        before, device.stream = device.stream, stream
        try:
            yield
        finally:
            device.stream = before

    def synchronize(self, device=None):
        _current().wait("synchronize")

    def get_amp_supported_dtype(self):
        return [torch.float32, torch.bfloat16, torch.float16]

    def is_autocast_enabled(self):
        return False

    def is_bf16_supported(self):
        return True


class Hook(_DummyPrivateUse1Hook):
    def is_available(self):
        return bool(_active)

    def has_primary_context(self, dev_id):
        return True


_active: list["StandIn"] = []


def _current() -> "StandIn":
    return _active[-1]


def _registered():
    if not hasattr(torch, NAME):
        _setup_privateuseone_for_python_backend(NAME, backend_module=Module(), hook=Hook())


class _Built(TorchFunctionMode):
    """Tensors of Python's numbers for the device: built here, then copied there. The copy makes the processor wait."""

    BUILDERS = (torch.tensor, torch.as_tensor, torch.Tensor.new_tensor)

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if function not in self.BUILDERS:
            return function(*args, **kwargs)
        like = args[0] if function is torch.Tensor.new_tensor else None
        asked = kwargs.get("device", None if like is None else like.device)
        if asked is None or torch.device(asked).type != NAME or isinstance(args[0 if like is None else 1], Away):
            return function(*args, **kwargs)
        kwargs |= {"device": "cpu"} | ({} if like is None else {"dtype": kwargs.get("dtype", like.dtype)})
        build = torch.as_tensor if function is torch.as_tensor else torch.tensor
        return build(args[0 if like is None else 1], **kwargs).to(asked)


class StandIn(TorchDispatchMode):
    """The device, for a while; the value of the context says what it was made to wait for."""

    def __init__(self):
        _registered()
        super().__init__()
        self.device = torch.device(NAME, 0)
        self.waits: list[Wait] = []
        self.trace: list[Ran] = []
        self.stream = Stream("main")
        self.clock = 0
        self.during = ""
        self.pinned: list[torch.Tensor] = []

    def __enter__(self):
        super().__enter__()
        _active.append(self)
        # The worker threads of the backward pass do not know a device that was registered after they started.
        self.threads = torch.autograd.set_multithreading_enabled(False)
        self.threads.__enter__()
        self.builders = _Built()
        self.builders.__enter__()
        return self

    def __exit__(self, *error):
        self.builders.__exit__(*error)
        self.threads.__exit__(*error)
        _active.pop()
        return super().__exit__(*error)

    def wait(self, operation):
        self.waits.append(Wait(operation, _asked()))
        self.clock = max(self.clock, self.stream.free)  # what is issued next is issued after what was waited for

    def put(self, x):
        """A tensor, or a module's, on the device, without counting it."""
        before = len(self.waits)
        moved = x.to(self.device)
        del self.waits[before:]
        return moved

    @contextmanager
    def labeled(self, name):
        """Mark what is issued meanwhile in the trace."""
        before, self.during = self.during, name
        try:
            yield
        finally:
            self.during = before

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if function in (aten.is_pinned.default, aten._pin_memory.default, aten.pin_memory.default):
            return self._pin(function, args[0])
        leaves = pytree.tree_leaves((args, kwargs))
        away = any(isinstance(leaf, Away) for leaf in leaves)
        asked = kwargs.get("device")
        target = torch.device(asked) if asked is not None else None
        if function in COPIES:
            return self._copy(function, args, kwargs, target, away)
        if not away and (target is None or target.type != NAME):
            return function(*args, **kwargs)
        self._check(function, leaves, away)
        self._count(function, args)
        self._run(str(function))
        if target is not None:
            kwargs["device"] = "cpu" if target.type == NAME else target
        return self._wrapped(function, args, kwargs)

    def _wrapped(self, function, args, kwargs):
        here = pytree.tree_map_only(Away, lambda x: x.here, (args, kwargs))
        made = function(*here[0], **here[1])
        made = pytree.tree_map_only(torch.Tensor, Away, made)
        return return_and_correct_aliasing(function, args, kwargs, made)

    def _pin(self, function, x):
        if function is aten.is_pinned.default:
            return any(x is one for one in self.pinned)
        made = x.clone()
        self.pinned.append(made)
        return made

    def _copy(self, function, args, kwargs, target, away):
        """A copy within one device, to the stand-in or from it: only the first never waits."""
        if function is aten.copy_.default:
            into, source = args[0], args[1]
            if isinstance(into, Away) == isinstance(source, Away):
                return self._wrapped(function, args, kwargs) if away else function(*args, **kwargs)
            values = source.here if isinstance(source, Away) else source
            place = into.here if isinstance(into, Away) else into
            self._crossed(source, non_blocking=bool(kwargs.get("non_blocking", len(args) > 2 and args[2])))
            place.copy_(values)
            return into
        source = args[0]
        there = isinstance(source, Away) if target is None else target.type == NAME
        values = source.here if isinstance(source, Away) else source
        if isinstance(source, Away) != there:
            self._crossed(source, non_blocking=bool(kwargs.get("non_blocking")))
            kwargs["device"] = "cpu"
        elif there:
            self._run(str(function))
            kwargs["device"] = "cpu"
        made = function(values, *args[1:], **kwargs)
        return Away(made) if there else made

    def _crossed(self, source, *, non_blocking):
        inward = not isinstance(source, Away)
        self._run("copy to the device" if inward else "copy from the device", ticks=COPY)
        # A copy from pageable memory is staged by the driver, and the processor waits for it, whatever is asked.
        if not (inward and non_blocking and any(source is one for one in self.pinned)):
            self.wait("copy to the device from memory that is not pinned" if inward else "copy to the processor")

    def _check(self, function, leaves, away):
        if not away:
            return
        for leaf in leaves:
            if isinstance(leaf, torch.Tensor) and not isinstance(leaf, Away) and leaf.ndim:
                raise Mixed(f"{function} met a tensor of {leaf.device} {tuple(leaf.shape)} and one of {self.device}.")

    def _count(self, function, args):
        masks = function in (
            aten.index.Tensor,
            aten.index_put_.default,
            aten.index_put.default,
            aten._index_put_impl_.default,
        )
        if function in READS:
            self.wait(f"reading a value ({function})")
        elif function in SHAPED_BY_VALUES:
            self.wait(f"a shape that depends on values ({function})")
        elif masks and any(isinstance(i, Away) and i.dtype in (torch.bool, torch.uint8) for i in args[1]):
            self.wait(f"a shape that depends on values (a mask as index, {function})")

    def _run(self, operation, ticks=1):
        self.clock += 1
        start = max(self.clock, self.stream.free)
        self.stream.free = start + ticks
        self.trace.append(Ran(operation, self.stream.name, start, start + ticks, self.during))


def _asked() -> str:
    """The innermost lines of the project on the stack."""
    frames = [frame for frame in traceback.extract_stack(sys._getframe(1)) if "/src/vergence/" in frame.filename]
    return (
        " < ".join(f"{frame.filename.split('/src/vergence/')[1]}:{frame.lineno}" for frame in frames[::-1][:3]) or "?"
    )

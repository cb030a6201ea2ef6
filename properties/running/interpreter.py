"""Watching Triton's interpreter: addresses against the tensors of a launch, programs in another order."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

_KERNEL_FRAMES_END = "triton"


@dataclass(frozen=True, slots=True)
class Access:
    """One access outside every tensor of the launch: the nearest tensor and the element beyond it."""

    kind: str
    tensor: str
    element: int
    num_elements: int
    line: str

    def __str__(self) -> str:
        return (
            f"{self.kind} of element {self.element} of `{self.tensor}`, "
            f"which has {self.num_elements}, at {self.line}"
        )


@dataclass(slots=True)
class _Range:
    name: str
    start: int
    stop: int
    item: int


@dataclass(slots=True)
class Watch:
    """What was seen of the launches of one call: accesses outside, and how many were looked at."""

    outside: list[Access] = field(default_factory=list)
    num_accesses: int = 0
    most_programs: int = 0
    _ranges: list[_Range] = field(default_factory=list)
    _order_seed: int | None = None


@contextmanager
def watching(order_seed: int | None = None) -> Iterator[Watch]:
    """Watch the interpreter's loads, stores and atomics; run programs in a seeded order if one is given.

    The interpreter's own overflow arithmetic, which reports nothing, is off: it costs a third of the time.
    Lanes outside every tensor argument are recorded and masked off, so a stray access is a finding
    and not a crash. Raises ``RuntimeError`` where this Triton's interpreter has no such methods.
    """
    from triton.runtime import interpreter

    builder, executor = interpreter.InterpreterBuilder, interpreter.GridExecutor
    watch = Watch(_order_seed=order_seed)
    patches = {
        (builder, "create_masked_load"): _guarded(builder, "create_masked_load", "load", watch),
        (builder, "create_masked_store"): _guarded(builder, "create_masked_store", "store", watch),
        (builder, "create_atomic_rmw"): _guarded(builder, "create_atomic_rmw", "atomic", watch),
        (builder, "create_atomic_cas"): _guarded(builder, "create_atomic_cas", "atomic", watch),
        (builder, "set_grid_idx"): _reordered(builder, watch),
        (builder, "set_grid_dim"): _counted(builder, watch),
        (interpreter.interpreter_builder, "options"): interpreter.InterpreterOptions(sanitize_overflow=False),
        (executor, "_init_args_hst"): _collecting(executor, watch),
    }
    patch_lang = _PatchOnce(_method(interpreter, "_patch_lang"))
    patches[(interpreter, "_patch_lang")] = patch_lang
    originals = {place: getattr(*place) for place in patches}
    for (owner, name), patch in patches.items():
        setattr(owner, name, patch)
    try:
        yield watch
    finally:
        patch_lang.restore_all()
        for (owner, name), original in originals.items():
            setattr(owner, name, original)


class _PatchOnce:
    """The interpreter patches ``triton.language`` at each launch and device-function call: once will do."""

    def __init__(self, original: Any) -> None:
        self._original = original
        self._scopes: list[Any] = []
        self._patched: set[str] = set()

    def __call__(self, fn: Any) -> "_PatchOnce":
        if fn.__module__ not in self._patched:
            self._patched.add(fn.__module__)
            self._scopes.append(self._original(fn))
        return self

    def restore(self) -> None:
        """Called by the interpreter at the end of a launch: the patches stay for the next one."""

    def restore_all(self) -> None:
        """Take the patches back, last first."""
        while self._scopes:
            self._scopes.pop().restore()


def _method(owner: type, name: str) -> Any:
    method = getattr(owner, name, None)
    if method is None:
        raise RuntimeError(f"Triton's interpreter has no {owner.__name__}.{name}: the bounds guard needs it")
    return method


def _guarded(builder: type, name: str, kind: str, watch: Watch) -> Any:
    original = _method(builder, name)
    mask_at = {"create_masked_load": 1, "create_masked_store": 2, "create_atomic_rmw": 3}.get(name)

    def guarded(self: Any, *args: Any) -> Any:
        arguments = list(args)
        pointer = arguments[1] if name == "create_atomic_rmw" else arguments[0]
        addresses = np.asarray(pointer.data)
        live = np.ones(addresses.shape, dtype=bool)
        if mask_at is not None:
            live = np.broadcast_to(np.asarray(arguments[mask_at].data, dtype=bool), addresses.shape)
        watch.num_accesses += 1
        inside = _inside(addresses, watch)
        if not np.all(inside | ~live):
            _record(kind, addresses[live & ~inside], watch)
            if mask_at is None:
                return type(arguments[1])(np.asarray(arguments[1].data), arguments[1].dtype)
            mask = arguments[mask_at]
            arguments[mask_at] = type(mask)(live & inside, mask.dtype)
        return original(self, *arguments)

    return guarded


def _inside(addresses: Any, watch: Watch) -> Any:
    inside = np.zeros(addresses.shape, dtype=bool)
    for span in watch._ranges:
        inside |= (addresses >= span.start) & (addresses < span.stop)
        if inside.all():
            break
    return inside


def _record(kind: str, addresses: Any, watch: Watch) -> None:
    """Name the access by the tensor whose memory is nearest."""
    if not watch._ranges or len(watch.outside) >= 8:
        return
    address = int(addresses.reshape(-1)[0])
    span = min(watch._ranges, key=lambda r: max(r.start - address, address - (r.stop - 1)))
    element = (address - span.start) // span.item
    watch.outside.append(
        Access(kind, span.name, element, (span.stop - span.start) // span.item, _source_line())
    )


def _source_line() -> str:
    """Return file and line of the kernel's statement: the innermost frame outside Triton and this file."""
    for frame in reversed(traceback.extract_stack()):
        parts = frame.filename.replace("\\", "/").split("/")
        if _KERNEL_FRAMES_END not in parts and frame.filename != __file__:
            return f"{parts[-1]}:{frame.lineno}"
    return "unknown line"


def _reordered(builder: type, watch: Watch) -> Any:
    original = _method(builder, "set_grid_idx")

    def reordered(self: Any, x: int, y: int, z: int) -> Any:
        if watch._order_seed is not None:
            sizes = self.grid_dim
            count = sizes[0] * sizes[1] * sizes[2]
            order = np.random.default_rng(watch._order_seed).permutation(count)[::-1]
            flat = int(order[(x * sizes[1] + y) * sizes[2] + z])
            x, y, z = flat // (sizes[1] * sizes[2]), flat // sizes[2] % sizes[1], flat % sizes[2]
        return original(self, x, y, z)

    return reordered


def _counted(builder: type, watch: Watch) -> Any:
    original = _method(builder, "set_grid_dim")

    def counted(self: Any, x: int, y: int, z: int) -> Any:
        watch.most_programs = max(watch.most_programs, x * y * z)
        return original(self, x, y, z)

    return counted


def _collecting(executor: type, watch: Watch) -> Any:
    original = _method(executor, "_init_args_hst")

    def collecting(self: Any, args: Any, kwargs: Any) -> Any:
        args_host, kwargs_host = original(self, args, kwargs)
        watch._ranges = [
            _span(name, tensor)
            for name, tensor in (*zip(self.arg_names, args_host, strict=False), *kwargs_host.items())
            if hasattr(tensor, "data_ptr") and tensor.numel()
        ]
        return args_host, kwargs_host

    return collecting


def _span(name: str, tensor: Any) -> _Range:
    last = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    start = tensor.data_ptr()
    return _Range(name, start, start + (last + 1) * tensor.element_size(), tensor.element_size())

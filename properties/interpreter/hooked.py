"""Methods of Triton's interpreter as the hooks replace them; each is made from the original and the watch."""

import sys
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache, lru_cache
from types import CodeType, FunctionType
from typing import Any

import numpy as np
import torch

from cumae.properties.interpreter.memory_call import with_data
from cumae.properties.interpreter.programs import Programs
from cumae.properties.interpreter.region import spans_of
from cumae.properties.interpreter.source_lines import source_line
from cumae.properties.interpreter.threads import DEFAULT_WARPS
from cumae.properties.interpreter.watch import Current
from cumae.properties.interpreter.widths import constants, with_widths


def _stays(argument: Any) -> bool:
    """Return whether an argument need not be copied to the host for the interpreter."""
    if type(argument) is torch.Tensor:
        return argument.device.type == "cpu"
    return isinstance(argument, (bool, int, float, str)) or argument is None


def _refusing(*operands: Any, **named: Any) -> Any:
    raise NotImplementedError("")


@cache
def libraries() -> dict[tuple[Any, str], Any]:
    """Return code for the functions of ``libdevice`` that stand for those of any GPU: here they return None.

    Kernels may hold these functions under names of their own, so each stays the object that it is.
    """
    from triton.language.extra import libdevice

    code: CodeType = _refusing.__code__
    functions = (one for one in vars(libdevice).values() if isinstance(one, FunctionType))
    return {(one, "__code__"): _saying(code, f"{one.__name__} of libdevice") for one in functions}


def _saying(code: CodeType, name: str) -> CodeType:
    told = f"{name} is not supported in interpreter mode"
    return code.replace(co_consts=tuple(told if one == "" else one for one in code.co_consts))


def cast(original: Callable[..., Any], now: Current) -> Any:
    """Mark pointers made from integers, and remove the mark from integers made from pointers."""

    def hooked(self: Any, value: Any, wanted: Any) -> Any:
        answer = original(self, value, wanted)
        was, becomes = value.dtype.scalar.is_ptr(), wanted.scalar.is_ptr()
        if becomes and (not was or _size(wanted) > _size(value.dtype)):
            now.watch.pointers.any_cast = True
        if becomes and not was:
            return with_data(answer, now.watch.pointers.made(answer.data))
        if was and not becomes:
            return with_data(answer, now.watch.pointers.unmade(answer.data).view(answer.data.dtype))
        return answer

    return hooked


def _size(pointer: Any) -> int:
    return int(getattr(pointer.scalar.element_ty, "primitive_bitwidth", 64))


def hinted(original: Callable[..., Any], now: Current) -> Any:
    """Look at what a kernel claims of a block."""

    def hooked(self: Any, name: str, values: Any) -> None:
        original(self, name, values)
        if not self.dtype.scalar.is_ptr():
            now.watch.hints.claimed(np.asarray(self.data), self.attr)

    return hooked


def splat(original: Callable[..., Any]) -> Any:
    """Keep a condition boolean: its handle has the dtype of the compared values and would take its width."""

    def hooked(self: Any, *args: Any) -> Any:
        answer = original(self, *args)
        is_bool = np.asarray(args[-1].data).dtype == np.bool_
        return with_data(answer, np.asarray(answer.data, dtype=bool)) if is_bool else answer

    return hooked


def asserted(now: Current) -> Any:
    """Record a device assertion that fails."""

    def hooked(self: Any, condition: Any, message: str) -> None:
        now.watch.counts["assert"] += 1
        if not np.all(condition.data):
            now.watch.asserted.append(f"{message} at {source_line()}")

    return hooked


def reordered(original: Callable[..., Any], now: Current) -> Any:
    """Begin a program; a seed permutes the programs."""

    def hooked(self: Any, x: int, y: int, z: int) -> Any:
        sizes, seed = self.grid_dim, now.watch.order_seed
        if seed is not None:
            flat = int(_order(seed, sizes[0] * sizes[1] * sizes[2])[(x * sizes[1] + y) * sizes[2] + z])
            x, y, z = flat // (sizes[1] * sizes[2]), flat // sizes[2] % sizes[1], flat % sizes[2]
        now.watch.begin((x * sizes[1] + y) * sizes[2] + z)
        return original(self, x, y, z)

    return hooked


@lru_cache(maxsize=64)
def _order(seed: int, count: int) -> Any:
    return np.random.default_rng(seed).permutation(count)[::-1]


MOST_OF_LATER_AXES = 65_535
"""Programs of a launch on its second and third axis: more are an invalid configuration for CUDA."""


def counted(original: Callable[..., Any], now: Current) -> Any:
    """Record the number of programs; refuse a grid that CUDA refuses."""

    def hooked(self: Any, *sizes: Any) -> Any:
        x, y, z = map(int, sizes)  # a tensor of one element is a size, too
        if max(y, z) > MOST_OF_LATER_AXES:
            raise RuntimeError(
                f"grid = {(x, y, z)}, a launch has at most {MOST_OF_LATER_AXES:,} programs on axes 1 and 2"
            )
        now.watch.most_programs = max(now.watch.most_programs, x * y * z)
        return original(self, x, y, z)

    return hooked


def waiting(now: Current) -> Any:
    """Record that a program waits for the kernel before; here, that one has ended."""

    def hooked() -> None:
        now.watch.early.wait(now.watch.program)

    return hooked


def launching(original: Callable[..., Any], now: Current) -> Any:
    """Tell the watch what the launch is like; refuse arguments that the kernel does not have.

    The interpreter leaves these out; where Triton compiles, the launch raises. A grid may be a list there.
    """

    def hooked(self: Any, *args: Any, **kwargs: Any) -> Any:
        for name in kwargs:
            if name not in self.arg_names and name not in _launch_options():
                raise KeyError(f"Keyword argument {name} was specified but unrecognised")
        self.grid = _in_a_tuple(self.grid)
        now.watch.early.begins = bool(kwargs.get("launch_pdl"))
        now.watch.hints.num_warps = kwargs.get("num_warps") or DEFAULT_WARPS
        if now.watch.threads is not None:
            now.watch.threads.num_warps = now.watch.hints.num_warps
        return original(self, *args, **kwargs)

    return hooked


def running(original: Callable[..., Any], now: Current) -> Any:
    """Keep the kernel that is launched: its options say which arguments are no constants."""

    def hooked(self: Any, *args: Any, **kwargs: Any) -> Any:
        now.kernel = self
        return original(self, *args, **kwargs)

    return hooked


def _in_a_tuple(grid: Any) -> Any:
    """Return a grid, or the function that makes it, with its sizes in a tuple and not in a list."""
    if callable(grid):
        return lambda meta: _in_a_tuple(grid(meta))
    return tuple(grid) if isinstance(grid, list) else grid


@cache
def _launch_options() -> frozenset[str]:
    """Return the names of options that a launch may have on any kind of GPU."""
    from triton.backends import backends

    modules = [vars(sys.modules[backend.compiler.__module__]) for backend in backends.values()]
    kinds = [kind for module in modules for name, kind in module.items() if name.endswith("Options")]
    return frozenset(field.name for kind in kinds if is_dataclass(kind) for field in fields(kind))


def copied(original: Callable[..., Any]) -> Any:
    """Copy arguments to the host only if one of them is elsewhere."""

    def hooked(self: Any, args: Any, kwargs: Any) -> Any:
        if all(map(_stays, (*args, *kwargs.values()))):
            return list(args), dict(kwargs)
        return original(self, args, kwargs)

    return hooked


def restored(original: Callable[..., Any]) -> Any:
    """Copy back only the arguments that were copied to the host."""

    def hooked(self: Any, args: Any, args_host: Any, kwargs: Any, kwargs_host: Any) -> None:
        if not all(map(_stays, (*args, *kwargs.values()))):
            original(self, args, args_host, kwargs, kwargs_host)

    return hooked


def collecting(original: Callable[..., Any], now: Current) -> Any:
    """Begin a launch: give the watch the tensors, and the arguments the types that compiled ones have."""

    def hooked(self: Any, args: Any, kwargs: Any) -> Any:
        args_host, kwargs_host = original(self, args, kwargs)
        named = (*zip(self.arg_names, args_host, strict=False), *kwargs_host.items())
        now.watch.launch([span for name, value in named for span in spans_of(name, value)])
        held = with_widths(self.fn, args_host, kwargs_host)
        left = now.kernel.kwargs.get("do_not_specialize") or () if now.kernel is not None else ()
        self.constexprs = [*self.constexprs, *constants(self.fn, args_host, kwargs_host, left)]
        self.fn = Programs(self.fn, now.watch)
        return held

    return hooked

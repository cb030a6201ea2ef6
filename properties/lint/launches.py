"""Launches recorded without running them: a function's kernels and their arguments."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from triton.backends.compiler import GPUTarget
from triton.compiler import make_backend
from triton.runtime.autotuner import Autotuner
from triton.runtime.interpreter import InterpretedFunction
from triton.runtime.jit import JITFunction, create_function_from_signature, mangle_type

from cumae.properties.operations.targets import Interruption

_BACKEND = make_backend(GPUTarget("cuda", 90, 32))  # keys depend on values, not on the target
Key = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch. ``types``: of each argument, before specialisation; ``constants``: constexpr arguments and
    None; ``options``: num_warps and the like; ``key``: the values that trigger a new compile, by argument or
    option; ``grid``: programs on each axis.
    """

    kernel: Any
    types: Mapping[str, str]
    constants: Mapping[str, Any]
    options: Mapping[str, Any]
    key: Key
    grid: tuple[int, int, int]

    @property
    def name(self) -> str:
        """The kernel's name."""
        name: str = self.kernel.__name__
        return name

    @property
    def place(self) -> tuple[str, int]:
        """File and first line of the kernel."""
        code = self.kernel.fn.__code__
        return code.co_filename, code.co_firstlineno

    @property
    def variant(self) -> tuple[Any, ...]:
        """A key of the compiled code, without specialisation to argument values."""
        parts = (self.types, self.constants, self.options)
        return (self.kernel, *(tuple((name, repr(value)) for name, value in part.items()) for part in parts))


class Interpreted(Interruption):
    """Raised, with its name, for an interpreted kernel; not an ``Exception``, so that it ends the call."""


@contextmanager
def recording() -> Iterator[list[Launch]]:
    """Record every launch in the yielded list instead of running it, for all configs of an autotuner.

    Raises ``Interpreted`` at the launch of a kernel that was made for the interpreter.
    """
    launches: list[Launch] = []

    def run(kernel: Any, *arguments: Any, grid: Any, warmup: bool = False, **named: Any) -> None:
        launches.append(_launch(kernel, arguments, grid, named))

    def tune(tuner: Any, *arguments: Any, **named: Any) -> None:
        for config in tuner.configs:
            tuner.fn.run(*arguments, **named, **config.all_kwargs())

    def refuse(kernel: Any, *arguments: Any, **named: Any) -> None:
        raise Interpreted(kernel.__name__)

    before = JITFunction.run, Autotuner.run, InterpretedFunction.run
    JITFunction.run, Autotuner.run, InterpretedFunction.run = run, tune, refuse
    try:
        yield launches
    finally:
        JITFunction.run, Autotuner.run, InterpretedFunction.run = before


def _launch(kernel: Any, arguments: tuple[Any, ...], grid: Any, named: dict[str, Any]) -> Launch:
    binder = kernel.__dict__.get("cumae_binder")
    if binder is None:
        binder = create_function_from_signature(kernel.signature, kernel.params, _BACKEND)
        kernel.cumae_binder = binder
    bound, specialised, options = binder(*arguments, **named)
    types, constants, key = {}, {}, []
    for parameter, (kind, special) in zip(kernel.params, specialised, strict=True):
        value = bound[parameter.name]
        if parameter.is_constexpr or value is None:
            types[parameter.name] = "constexpr"
            constants[parameter.name] = value
        else:
            types[parameter.name] = parameter.annotation_type or mangle_type(value)
        key.append((parameter.name, repr((kind, special))))
    key += [(name, repr(value)) for name, value in sorted(options.items())]
    size = grid(bound) if callable(grid) else grid
    sizes = tuple(int(n) for n in (*size, 1, 1)[:3])
    return Launch(kernel, types, constants, options, tuple(key), (sizes[0], sizes[1], sizes[2]))

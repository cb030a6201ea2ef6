"""Comparison of the code that a mutant and its original compile to, for the original's launches."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from cumae.properties.faults.mutants import Mutant, swapped
from cumae.properties.faults.scope import scope_of
from cumae.properties.lint.dataflow import LOCATION
from cumae.properties.search.child import Tell

Constants = tuple[tuple[str, Any], ...]
_TYPES = {"bool": "i1", "uint8": "u8", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64"}
_TYPES |= {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64"}


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch of a kernel: the type of each argument, and the constants."""

    module: str
    name: str
    types: tuple[tuple[str, str], ...]
    constants: Constants


def _reaches(launch: Launch, mutant: Mutant) -> bool:
    """Return whether the kernel of a launch is the mutated one, or calls it."""
    kernel = vars(import_module(launch.module))[launch.name]
    return (mutant.module, mutant.name) in {(part.module, part.name) for part in scope_of(kernel)}


@contextmanager
def recording() -> Iterator[list[Launch]]:
    """Collect the interpreter's launches, one for each set of constants and one for each set of types."""
    from triton.runtime import interpreter

    found: list[Launch] = []
    seen: set[object] = set()
    executor = interpreter.GridExecutor
    original = executor.__call__

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        launch = _launch(self, args, kwargs)
        for key in ((launch.name, launch.types), (launch.name, str(launch.constants))):
            if key not in seen:
                seen.add(key)
                if launch not in found:
                    found.append(launch)
        return original(self, *args, **kwargs)

    executor.__call__ = call
    try:
        yield found
    finally:
        executor.__call__ = original


def _launch(executor: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Launch:
    given = dict(zip(executor.arg_names, args, strict=False)) | kwargs
    named = {name: given[name] for name in executor.arg_names if name in given}
    types = {name: "constexpr" if name in executor.constexprs else _type(v) for name, v in named.items()}
    constants = tuple((name, value) for name, value in named.items() if types[name] == "constexpr")
    function = executor.fn
    return Launch(function.__module__, function.__name__, tuple(types.items()), constants)


def _type(value: Any) -> str:
    if value is None:
        return "constexpr"
    if hasattr(value, "data_ptr"):
        return f"*{_TYPES[str(value.dtype).removeprefix('torch.')]}"
    if isinstance(value, bool):
        return "i1"
    if isinstance(value, int):
        return "i32" if -(2**31) <= value < 2**31 else "i64"
    return "fp32"


class Compiler:
    """Compiles mutants ahead of time; needs a process in which Triton does not interpret."""

    def __init__(self, tell: Tell) -> None:
        os.environ["TRITON_ALWAYS_COMPILE"] = "1"  # the cache does not notice a swapped helper
        self._folder = tempfile.TemporaryDirectory(prefix="cumae-")
        os.environ["TRITON_CACHE_DIR"] = self._folder.name
        self._originals: dict[Launch, str | None] = {}

    def num_equal(self, asked: tuple[list[Launch], Mutant]) -> int:
        """Return the number of launches that reach the mutant; 0 unless the code is equal in all of them."""
        every, mutant = asked
        launches = [launch for launch in dict.fromkeys(every) if _reaches(launch, mutant)]
        for launch in launches:
            if launch not in self._originals:
                self._originals[launch] = self._ttir(launch)
            if self._originals[launch] is None:
                return 0
        with swapped(mutant):
            equal = all(self._ttir(launch) == self._originals[launch] for launch in launches)
        return len(launches) if equal else 0

    def _ttir(self, launch: Launch) -> str | None:
        """Return the code without source locations, None if the compiler refuses it."""
        import triton
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource

        kernel = vars(sys.modules[launch.module])[launch.name]
        while not hasattr(kernel, "arg_names"):
            kernel = kernel.fn
        places = {(kernel.arg_names.index(name),): value for name, value in launch.constants}
        source = ASTSource(kernel, dict(launch.types), places)
        try:
            compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32))
        except Exception:  # any error of the compiler: it does not compile
            return None
        lines = (line for line in compiled.asm["ttir"].splitlines() if not line.startswith("#loc"))
        return LOCATION.sub("", "\n".join(lines))

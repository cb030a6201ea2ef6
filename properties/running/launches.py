"""The numbers that launches of kernels show, and a bound on the programs of interpreted ones."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf, prod
from typing import Any

from cumae.properties.operations.targets import Interruption


class TooManyPrograms(Interruption):
    """Raised before an interpreted launch of more programs than allowed; it ends the call of the function."""


@dataclass(slots=True)
class Launches:
    """The launches so far.

    ``numbers``: how many launches showed each integer, as a constexpr argument, as an axis of the grid or as
    the extent of a range inside the kernel. ``programs``: interpreted programs. ``most_programs``: the most
    that an interpreted launch may have.
    """

    numbers: Counter[int] = field(default_factory=Counter)
    programs: int = 0
    most_programs: float = inf
    _ranges: set[int] = field(default_factory=set)

    def take(self) -> Counter[int]:
        """Return the numbers shown since the last call, and forget them."""
        shown, self.numbers = self.numbers, Counter()
        return shown

    def _note(self, arguments: Any, grid: tuple[int, ...] = ()) -> None:
        shown = {int(value) for value in arguments if isinstance(value, int) and not isinstance(value, bool)}
        self.numbers.update(shown | set(grid))


def _constants(
    names: Sequence[str], constants: Collection[str], arguments: Sequence[Any], named: Mapping[str, Any]
) -> list[Any]:
    """Return the constexpr arguments of a launch."""
    given = {**dict(zip(names, arguments, strict=False)), **named}
    return [value for name, value in given.items() if name in constants]


@contextmanager
def noting_launches() -> Iterator[Launches]:
    """Note what the launches of all kernels show, interpreted or compiled, while the context is open.

    Ranges inside a kernel show only where it is interpreted.
    """
    from triton.runtime import interpreter
    from triton.runtime.jit import JITFunction

    launches = Launches()
    builder, executor = interpreter.InterpreterBuilder, interpreter.GridExecutor
    originals = JITFunction.run, executor.__call__, builder.create_make_range, builder.set_grid_dim
    run, execute, make_range, set_grid = originals

    def noted_run(kernel: Any, *arguments: Any, grid: Any, warmup: bool = False, **named: Any) -> Any:
        constants = {parameter.name for parameter in kernel.params if parameter.is_constexpr}
        values = _constants(kernel.arg_names, constants, arguments, named)
        launches._note(values, () if callable(grid) else tuple(grid))
        return run(kernel, *arguments, grid=grid, warmup=warmup, **named)

    def noted_execute(launch: Any, *arguments: Any, **named: Any) -> Any:
        launches._note(_constants(launch.arg_names, set(launch.constexprs), arguments, named))
        try:
            return execute(launch, *arguments, **named)
        finally:
            launches.numbers.update(launches._ranges)
            launches._ranges.clear()

    def noted_range(self: Any, *arguments: Any) -> Any:
        start, stop = arguments[-2:]
        launches._ranges.add(int(stop) - int(start))
        return make_range(self, *arguments)

    def noted_grid(self: Any, *sizes: int) -> Any:
        programs = prod(sizes)
        if programs > launches.most_programs:
            raise TooManyPrograms(f"{programs} programs")
        launches.programs += programs
        launches.numbers.update(set(sizes))
        return set_grid(self, *sizes)

    patched = noted_run, noted_execute, noted_range, noted_grid
    names = ("run", "__call__", "create_make_range", "set_grid_dim")
    owners = (JITFunction, executor, builder, builder)
    for owner, name, patch in zip(owners, names, patched, strict=True):
        setattr(owner, name, patch)
    try:
        yield launches
    finally:
        for owner, name, original in zip(owners, names, originals, strict=True):
            setattr(owner, name, original)

"""The numbers that launches of kernels show, and bounds on the work of interpreted ones."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf, prod
from typing import Any

from cumae.properties.interpreter.hooks import require_hooks
from cumae.properties.operations.targets import Interruption


class TooMuchWork(Interruption):
    """Raised before an interpreted launch of more programs than allowed, or at the access that is too many.

    It ends the call of the function.
    """


@dataclass(slots=True)
class Launches:
    """The launches so far.

    ``numbers``: how many launches showed each integer, as a constexpr argument, as an axis of the grid or as
    the extent of a range inside the kernel. ``programs``, ``accesses``: interpreted programs, and their loads
    and stores, whatever the size of a block; ``largest``: the most of one launch since it was set to 0.
    ``most_programs``, ``most_accesses``: the most of an interpreted launch.
    """

    numbers: Counter[int] = field(default_factory=Counter)
    programs: int = 0
    accesses: int = 0
    largest: int = 0
    most_programs: float = inf
    most_accesses: float = inf
    _begun_at: int = 0
    _ranges: set[int] = field(default_factory=set)

    def take(self) -> Counter[int]:
        """Return the numbers shown since the last call, and forget them."""
        shown, self.numbers = self.numbers, Counter()
        return shown

    def _access(self) -> None:
        self.accesses += 1
        in_launch = self.accesses - self._begun_at
        self.largest = max(self.largest, in_launch)
        if in_launch > self.most_accesses:
            raise TooMuchWork(f"more than {self.most_accesses:,.0f} accesses")

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

    Ranges inside a kernel show only where it is interpreted. Raises ``ValueError`` if this Triton's
    interpreter lacks a hooked method.
    """
    from triton.runtime import interpreter
    from triton.runtime.jit import JITFunction

    require_hooks()
    launches = Launches()
    builder, executor = interpreter.InterpreterBuilder, interpreter.GridExecutor
    run, execute = JITFunction.run, executor.__call__
    make_range, set_grid = builder.create_make_range, builder.set_grid_dim
    load, store = builder.create_masked_load, builder.create_masked_store

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
            raise TooMuchWork(f"{programs:,} programs")
        launches.programs += programs
        launches._begun_at = launches.accesses
        launches.numbers.update(set(sizes))
        return set_grid(self, *sizes)

    def noted_load(self: Any, *arguments: Any) -> Any:
        launches._access()
        return load(self, *arguments)

    def noted_store(self: Any, *arguments: Any) -> Any:
        launches._access()
        return store(self, *arguments)

    patches = (
        (JITFunction, "run", run, noted_run),
        (executor, "__call__", execute, noted_execute),
        (builder, "create_make_range", make_range, noted_range),
        (builder, "set_grid_dim", set_grid, noted_grid),
        (builder, "create_masked_load", load, noted_load),
        (builder, "create_masked_store", store, noted_store),
    )
    for owner, name, _, noted in patches:
        setattr(owner, name, noted)
    try:
        yield launches
    finally:
        for owner, name, original, _ in patches:
            setattr(owner, name, original)

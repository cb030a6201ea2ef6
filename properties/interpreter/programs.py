"""A kernel whose programs run one after the other, side by side if one waits for a later one, or in turns."""

import inspect
from collections.abc import Callable
from functools import lru_cache, partial
from itertools import product
from math import prod
from typing import Any

from cumae.properties.interpreter.launch import Freed, Launch, WaitsForEver
from cumae.properties.interpreter.schedules import InTurn
from cumae.properties.interpreter.turns import Turns
from cumae.properties.interpreter.watch import Watch

MOST_PROGRAMS = 4096
"""More programs than these run one after the other: no GPU holds more at once."""
Index = tuple[int, int, int]
_signature = lru_cache(maxsize=256)(inspect.signature)


class Programs:
    """A rewritten kernel, called once a program by the interpreter's loop over the grid.

    With turns it keeps the programs until the last one of the launch is there, and runs them all then.
    """

    def __init__(self, kernel: Callable[..., Any], watch: Watch) -> None:
        self._kernel, self._watch = kernel, watch
        self._begun: set[Index] = set()
        self.__name__: str = kernel.__name__
        self.__module__ = kernel.__module__
        self.__globals__ = kernel.__globals__
        self.__code__ = kernel.__code__
        self.__wrapped__ = kernel
        self.__signature__ = _signature(kernel)

    def __call__(self, **arguments: Any) -> None:
        """Run the program whose index the interpreter has set, or all if it is the last of the launch."""
        from triton.runtime.interpreter import interpreter_builder as builder

        if builder.grid_idx in self._begun:
            return  # it has run with the others
        run, count = partial(self._kernel, **arguments), prod(builder.grid_dim)
        if self._watch.turns is not None and 1 < count <= MOST_PROGRAMS:
            every = _indices(builder)
            self._begun.update(every)
            self._watch.turns.run([run] * len(every), *self._places(builder, every))
            return
        self._begun.add(builder.grid_idx)
        self._run_one(builder, run)
        if self._watch.threads is not None:
            self._watch.threads.meet()

    def _run_one(self, builder: Any, run: Callable[[], None]) -> None:
        """Run one program; if it waits, let those that have not begun take turns with it."""
        shared: list[Launch] = []

        def share() -> None:
            rest = [index for index in _indices(builder) if index not in self._begun]
            if self._watch.turns is not None or self._watch.threads is not None or len(rest) > MOST_PROGRAMS:
                raise WaitsForEver(f"program {self._watch.program}")
            self._begun.update(rest)
            self._watch.turns = Turns(InTurn())
            programs = [run] * (1 + len(rest))
            places = self._places(builder, [builder.grid_idx, *rest])
            shared.append(self._watch.turns.launch(programs, *places))
            shared[0].join()

        waits, self._watch.waits = self._watch.waits, share
        try:
            run()
            for launch in shared:
                launch.end()
        except Freed:
            assert shared[0].error is not None
            raise shared[0].error from None
        finally:
            self._watch.waits = waits
            for launch in shared:
                launch.free()
                self._watch.turns = None

    def _places(self, builder: Any, indices: list[Index]) -> tuple[Callable[[], str], Callable[..., None]]:
        """Return the functions that keep and put back what Triton and the watch hold for one program."""
        _, rows, columns = builder.grid_dim

        def enter(number: int, semantic: str | None) -> None:
            x, y, z = builder.grid_idx = indices[number]
            self._watch.program = (x * rows + y) * columns + z
            self._watch.semantic = semantic or ""

        return lambda: self._watch.semantic, enter


def _indices(builder: Any) -> list[Index]:
    x, y, z = map(range, builder.grid_dim)
    return list(product(x, y, z))

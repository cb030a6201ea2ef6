"""The modules of one call of ``take``, and the order in which their names are defined."""

from collections import deque
from pathlib import Path
from typing import Any

from cumae.properties.taking.module import Circular, Module
from cumae.properties.taking.stub import Stub


class Loader:
    """The modules of one call of ``take``.

    ``stubs``: values given by name; ``on_cpu``: whether tensors are on the CPU; ``interpreted``: whether
    kernels are interpreted.
    """

    _count = 0

    def __init__(self, stubs: dict[str, Any], *, on_cpu: bool, interpreted: bool) -> None:
        Loader._count += 1
        self.prefix = f"taken{Loader._count}"
        self.stubs = stubs
        self.on_cpu, self.interpreted = on_cpu, interpreted
        self.is_settling = False
        self.pending: deque[tuple[Module, str]] = deque()
        self._postponed: list[tuple[Module, str]] = []
        self._modules: dict[Path, Module] = {}

    def module(self, path: Path) -> Module:
        """Return the module of a file, or of a folder."""
        if path not in self._modules:
            self._modules[path] = Module(self, path)
        return self._modules[path]

    def settle(self, *, last: bool = False) -> None:
        """Define the names that decorated functions use; one that cannot be defined becomes a stub.

        Names whose definition is still running are postponed until the ``last`` call.
        """
        if last:
            self.pending.extend(self._postponed)
        before, self.is_settling = self.is_settling, True
        while self.pending:
            self.define(*self.pending.popleft(), last=last)
        self.is_settling = before

    def define(self, module: Module, name: str, *, last: bool = False) -> None:
        """Define a name, or make it a stub with the reason; postpone a name whose definition is running."""
        try:
            module.need(name)
        except Circular as error:
            if last:
                raise ValueError(f"names = {name!r}, must not depend on itself: {error}") from error
            self._postponed.append((module, name))
        except ValueError as error:
            setattr(module, name, Stub(name, str(error), name))

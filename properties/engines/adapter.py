"""An adapter: an engine function's file, its operation and its domain."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cumae.oracle import OperationName
from cumae.oracle.model.rules import require
from cumae.properties.cases.domain import Domain
from cumae.properties.dialects import Dialect, DialectName
from cumae.properties.engines.known import Known
from cumae.properties.operations import Operation
from cumae.properties.taking.imports import reaches
from cumae.properties.taking.take import take
from cumae.properties.taking.unpack import file_of

Function = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Adapter:
    """Makes a released function callable with the argument names of a dialect.

    ``file``: its place under the engine's root; ``names``: the definitions to take from it; ``stubs``: values
    for their imports. ``adapt`` gets the definitions and returns the function under test, which only passes
    arguments and results on. ``versions``: the releases that it was tried with. ``known``: a disagreement
    that they have.
    """

    name: str
    file: str
    names: tuple[str, ...]
    operation: OperationName | Operation
    dialect: DialectName | Dialect
    domain: Domain
    versions: tuple[str, ...]
    adapt: Callable[..., Function]
    stubs: Mapping[str, Any]
    known: Known | None = None

    def function(self, root: Path | str) -> Function:
        """Return the function under test, taken from a wheel, a folder of packages or a checkout.

        Raises ``ValueError`` if the file or a name is missing.
        """
        function = self.adapt(*self.definitions(root))
        function.__name__ = function.__qualname__ = self.name
        return function

    def file_in(self, root: Path | str) -> Path:
        """Return the file in a wheel, a folder of packages or a checkout; ``ValueError`` if it has none."""
        place = Path(root) / "python" / self.file  # the package folder in SGLang's checkout
        return file_of(place if place.is_file() else Path(root) / self.file)

    def definitions(self, root: Path | str) -> tuple[Any, ...]:
        """Return the definitions to adapt, newly taken. Raises ``ValueError`` as ``function`` does."""
        file = self.file_in(root)
        # Another release may not need them all.
        needed = {name: value for name, value in self.stubs.items() if reaches(name, file)}
        taken = take(file, *self.names, **needed)
        return taken if len(self.names) > 1 else (taken,)


@dataclass(slots=True)
class Engine:
    """The adapters of one engine, in the order in which its module defines them.

    ``distribution``: what its package is installed as, if not by its own name.
    """

    name: str
    dialect: DialectName
    versions: tuple[str, ...]
    distribution: str = ""
    adapters: dict[str, Adapter] = field(default_factory=dict)

    def adapts(
        self,
        file: str,
        *names: str,
        operation: OperationName | Operation,
        domain: Domain,
        dialect: DialectName | Dialect | None = None,
        known: Known | None = None,
        **stubs: Any,
    ) -> Callable[[Callable[..., Function]], Callable[..., Function]]:
        """Register an adapter; decorates a function from the definitions taken to the function under test."""

        def adapted(adapt: Callable[..., Function]) -> Callable[..., Function]:
            name = adapt.__name__
            require(name not in self.adapters, "adapter", name, f"be new: {self.name} has it")
            used = dialect or self.dialect
            self.adapters[name] = Adapter(
                name, file, names, operation, used, domain, self.versions, adapt, stubs, known
            )
            return adapt

        return adapted

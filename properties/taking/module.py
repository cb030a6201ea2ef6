"""One file of released code as a module that defines its names on demand."""

import __future__

import ast
import builtins
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from cumae.properties.taking.imports import (
    REAL,
    Uninstalled,
    folder_of,
    is_real,
    module_file,
    names_of,
    place,
    top,
)
from cumae.properties.taking.names import (
    Statement,
    bound_by,
    imports_in,
    only,
    split_imports,
    statement_of,
)
from cumae.properties.taking.on_cpu import OnCpu, stand_ins, tune_without_a_clock
from cumae.properties.taking.quiet import without_warnings
from cumae.properties.taking.real_triton import TRITON, named_so, of_fork
from cumae.properties.taking.stub import Stub

if TYPE_CHECKING:
    from cumae.properties.taking.loader import Loader

_ANNOTATIONS_WAIT = __future__.annotations.compiler_flag
_BUILTINS = frozenset(dir(builtins))


class _Names(dict[str, Any]):
    """The built-in names; the lookup of any other name defines it in the module."""

    def __init__(self, module: "Module") -> None:
        super().__init__(vars(builtins), __import__=module._import)
        self._module = module

    def __missing__(self, name: str) -> Any:
        self._module._loader.define(self._module, name)
        if name not in vars(self._module):
            raise KeyError(name)
        return vars(self._module)[name]


class Circular(ValueError):
    """Raised if a name is needed while it is being defined."""


class Module(ModuleType):
    """A module that defines a name when it is needed, together with its dependencies."""

    def __init__(self, loader: "Loader", path: Path) -> None:
        self._loader = loader
        self._path = path
        file = path if path.is_file() else None
        dotted = ".".join((*path.parts[-3:-1], path.stem))
        super().__init__(f"{loader.prefix}.{dotted}")
        sys.modules[self.__name__] = self
        self.__builtins__ = _Names(self)
        self._futures = 0
        self._stars: list[ast.ImportFrom] = []
        self._bound: dict[str, list[Statement]] = {}
        if loader.on_cpu:
            vars(self).update(stand_ins())
        if file is not None:
            self.__file__ = str(file)
            self._index(file.read_text())
        self._builtin = _BUILTINS - self._bound.keys()
        for name in self._bound.keys() & _BUILTINS:  # from x import sum
            self.__builtins__.pop(name)

    def _index(self, text: str) -> None:
        tree = ast.parse(text, str(self._path))
        tree = Uninstalled(self._loader.stubs, self._path).visit(tree)
        if self._loader.on_cpu:
            tree = OnCpu().visit(tree)
        for node in split_imports(ast.fix_missing_locations(tree).body):
            if isinstance(node, ast.ImportFrom) and node.module == "__future__":
                self._futures |= getattr(__future__, node.names[0].name).compiler_flag
            elif isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
                self._stars.append(node)
            else:
                statement = statement_of(node)
                for name in bound_by(node):
                    self._bound.setdefault(name, []).append(statement)
        for name, statements in self._bound.items():
            if isinstance(statements[0].node, (ast.Import, ast.ImportFrom)):  # torch.x = y is not part of it
                self._bound[name] = [s for s in statements if name in names_of(s.node)]

    @property
    def names(self) -> list[str]:
        """The names that the file binds."""
        return list(self._bound)

    def need(self, name: str) -> bool:
        """Define a name with its dependencies; return whether the file has it.

        Raises ``ValueError`` if it cannot be defined.
        """
        if name in self._loader.stubs:
            setattr(self, name, self._loader.stubs[name])
            return True
        statements = self._bound.get(name, [])
        if name in vars(self) and all(statement.state in ("running", "done") for statement in statements):
            return True
        if not statements:
            return self._need_star(name)
        for statement in statements:
            for node in imports_in(statement.node):
                if is_real(node) and name in names_of(node):
                    self._run(statement_of(node))
                    return True
        for statement in statements:
            self._run(statement)
        return name in vars(self)

    def condition_of(self, name: str) -> str:
        """Return under which condition the file defines a name, in words; "" if under none."""
        for statement in self._bound.get(name, []):
            if isinstance(node := statement.node, ast.If):
                return f"line {node.lineno} defines it only if {ast.unparse(node.test)}"
        return ""

    def is_class(self, name: str) -> bool:
        """Return whether the file defines a class of this name."""
        return any(isinstance(one.node, ast.ClassDef) for one in self._bound.get(name, []))

    def method(self, kind: str, name: str) -> Any:
        """Return one method of a class, without the rest of it, or None if there is none."""
        for statement in self._bound.get(kind, []):
            if isinstance(statement.node, ast.ClassDef):
                small = only(statement.node, name)
                if small is not None:
                    found: dict[str, Any] = {}
                    self._run(statement_of(ast.fix_missing_locations(small)), found)
                    return getattr(found[kind], name)
        return None

    def owners(self, name: str) -> list[str]:
        """Return ``Class.method`` of each class whose own method has this name."""
        return [
            f"{kind}.{name}"
            for kind, statements in self._bound.items()
            for statement in statements
            if isinstance(statement.node, ast.ClassDef) and only(statement.node, name) is not None
        ]

    def _run(self, statement: Statement, names: dict[str, Any] | None = None) -> None:
        if statement.state == "running":
            raise Circular(f"{self._path.name}:{statement.node.lineno}")
        if statement.state == "failed":
            raise ValueError(statement.error)
        if statement.state == "done":
            return
        statement.state = "running"
        futures = self._futures if statement.is_decorated else self._futures | _ANNOTATIONS_WAIT
        try:
            self._prepare(statement)
            tree = ast.Module([statement.node], [])
            with without_warnings():
                exec(compile(tree, str(self._path), "exec", futures, dont_inherit=True), vars(self), names)
        except Circular:
            statement.state = ""
            raise
        except Exception as error:
            said = f"{type(error).__name__}: {error}" if not isinstance(error, ValueError) else str(error)
            statement.state = "failed"
            statement.error = f"{self._path.name}:{statement.node.lineno} cannot be defined: {said}"
            raise ValueError(statement.error) from error
        statement.state = "done"
        if self._loader.interpreted:
            for name in bound_by(statement.node):
                tune_without_a_clock((names or vars(self)).get(name))
        if statement.is_decorated or self._loader.is_settling:
            self.wait(statement)
        for name in statement.handed:
            for handed in self._bound.get(name, []):
                self.wait(handed)

    def wait(self, statement: Statement) -> None:
        """Schedule the definition of the names that the functions of a statement read when they run."""
        self._loader.pending.extend((self, name) for name in statement.later - self._builtin)

    def _prepare(self, statement: Statement) -> None:
        """Define the names that a statement reads while it runs."""
        for name in statement.noted - self._builtin if statement.is_decorated else ():
            self._loader.define(self, name)
            vars(self).setdefault(name, Stub(name, "being defined", name))
        for name in statement.at_once - self._builtin:
            others = self._bound.get(name, [])
            if statement in others:  # x = f(x)
                for earlier in others[: others.index(statement)]:
                    self._run(earlier)
            else:
                self.need(name)
        if statement.is_decorated:
            self._loader.settle()

    def _need_star(self, name: str) -> bool:
        for node in self._stars:
            source = self._import(node.module or "", vars(self), None, (name,), node.level)
            known = source.need(name) if isinstance(source, Module) else hasattr(source, name)
            if known:
                setattr(self, name, getattr(source, name))
                return True
        return False

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        bound = vars(self).get("_bound", {})
        if self.need(name) and name in vars(self):
            return vars(self)[name]
        path: Path = vars(self)["_path"]
        folder = folder_of(path)
        inner = folder and module_file(folder / name)
        if inner:
            return self._loader.module(inner)
        where = f"{path.parent.name}.{path.stem}"
        if name in bound or "__getattr__" in bound:
            return Stub(f"{where}.{name}", "known only when the engine runs", name)
        if folder is not None:
            return Stub(f"{where}.{name}", "a module that the source lacks", name)
        raise AttributeError(f"{path} has no {name}")

    def _import(
        self, name: str, globals_: Any = None, locals_: Any = None, names: Any = (), level: int = 0
    ) -> Any:
        """Replace ``__import__`` in this module: import a real package, a file of the source, or a stub."""
        given = {n: self._loader.stubs[n] for n in names or () if n in self._loader.stubs}
        if given and len(given) == len(names):
            return _Given(given)
        if level == 0 and top(name) in (*REAL, *sys.stdlib_module_names):
            return builtins.__import__(name, None, None, names or ())
        path = place(name if names or level else top(name), self._path, level)
        if path is not None:
            return self._loader.module(path)
        if level == 0 and (fork := of_fork(name, names or ())) is not None:
            return fork
        if names and not TRITON.keys().isdisjoint(names):
            known = {n: named_so(n) or Stub(f"{name}.{n}", "foreign", n) for n in names}
            return _Given(known | given)
        return Stub(name, "foreign") if names else Stub(top(name), "foreign", top(name))


class _Given(ModuleType):
    """A module of given names, which replaces an imported one."""

    def __init__(self, values: dict[str, Any]) -> None:
        super().__init__("given")
        vars(self).update(values)

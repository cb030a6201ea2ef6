"""One file of released code as a module that is defined name by name, as far as it is asked for."""

import __future__

import ast
import builtins
import sys
from collections import deque
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from cumae.properties.engines.names import (
    Statement,
    alias_name,
    bound_by,
    imports_in,
    only,
    split_imports,
    statement_of,
)
from cumae.properties.engines.on_cpu import OnCpu, stand_ins
from cumae.properties.engines.stub import Stub

REAL = ("torch", "triton", "numpy")
_CAUGHT = {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}
_ANNOTATIONS_WAIT = __future__.annotations.compiler_flag
_BUILTINS = frozenset(dir(builtins))


class _Names(dict[str, Any]):
    """The built-in names; behind them, a function that runs has defined what it reads of its file."""

    def __init__(self, module: "Module") -> None:
        super().__init__(vars(builtins), __import__=module._import)
        self._module = module

    def __missing__(self, name: str) -> Any:
        self._module._loader.define(self._module, name)
        if name not in vars(self._module):
            raise KeyError(name)
        return vars(self._module)[name]


class Circular(ValueError):
    """A name is asked for while it is being defined."""


class Loader:
    """The modules of one call of ``take``.

    ``stubs``: values given by name; ``on_cpu``: whether kernels are interpreted.
    """

    _count = 0

    def __init__(self, stubs: dict[str, Any], *, on_cpu: bool) -> None:
        Loader._count += 1
        self.prefix = f"taken{Loader._count}"
        self.stubs = stubs
        self.on_cpu = on_cpu
        self.is_settling = False
        self.pending: deque[tuple[Module, str]] = deque()
        self._postponed: list[tuple[Module, str]] = []
        self._modules: dict[Path, Module] = {}

    def module(self, path: Path) -> "Module":
        """Return the module of a file, or of a folder."""
        if path not in self._modules:
            self._modules[path] = Module(self, path)
        return self._modules[path]

    def settle(self, *, last: bool = False) -> None:
        """Define what decorated functions name; what cannot be defined becomes a stub that says why.

        What is being defined further out waits, until the ``last`` call.
        """
        if last:
            self.pending.extend(self._postponed)
        before, self.is_settling = self.is_settling, True
        while self.pending:
            self.define(*self.pending.popleft(), last=last)
        self.is_settling = before

    def reaches(self, name: str, path: Path) -> bool:
        """Return whether a name stands in a file or in what that imports, however far."""
        files, seen = deque([path]), {path}
        while files:
            file = files.popleft()
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Name) and node.id == name:
                    return True
                if isinstance(node, (ast.Import, ast.ImportFrom)):
                    if any(name in (alias.name, alias_name(alias)) for alias in node.names):
                        return True
                    new = [found for found in self._imported(node, file) if found not in seen]
                    seen.update(new)
                    files.extend(new)
        return False

    def _imported(self, node: ast.Import | ast.ImportFrom, importer: Path) -> list[Path]:
        """Return the files of the importer's own source that an import may run."""
        if isinstance(node, ast.Import):
            places = [self.find(alias.name, importer) for alias in node.names]
        else:
            module = self.place(node.module or "", importer, node.level)
            folder = _folder_of(module) if module is not None else None
            places = [module, *(_module_file(folder / alias.name) for alias in node.names if folder)]
        return [place for place in places if place is not None and place.is_file()]

    def place(self, name: str, importer: Path, level: int) -> Path | None:
        """Return the file or folder of a module named as an import names it, or None: it is foreign."""
        if level == 0:
            return self.find(name, importer)
        folder = importer.parents[level - 1]
        return _module_file(folder.joinpath(*name.split("."))) if name else _module_file(folder)

    def define(self, module: "Module", name: str, *, last: bool = False) -> None:
        """Define a name, or make it a stub that says why it cannot be; one being defined may wait."""
        try:
            module.need(name)
        except Circular as error:
            if last:
                raise ValueError(f"names = {name!r}, must not need itself: {error}") from error
            self._postponed.append((module, name))
        except ValueError as error:
            setattr(module, name, Stub(name, str(error), name))

    def find(self, name: str, importer: Path) -> Path | None:
        """Return the file or folder of a module inside the importer's own source, or None: it is foreign."""
        first, *rest = name.split(".")
        roots = [Path(*importer.parts[:i]) for i, part in enumerate(importer.parts) if part == first]
        for root in (*roots, importer.parent):
            found = _module_file(root.joinpath(first, *rest))
            if found is not None:
                return found
        return None


class Module(ModuleType):
    """A module whose names are defined when they are needed, with what they need."""

    def __init__(self, loader: Loader, path: Path) -> None:
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

    def _index(self, text: str) -> None:
        tree = ast.parse(text, str(self._path))
        tree = _Uninstalled(self._loader, self._path).visit(tree)
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
            if isinstance(statements[0].node, (ast.Import, ast.ImportFrom)):  # torch.x = y is no part of it
                self._bound[name] = [s for s in statements if name in _names_of(s.node)]

    @property
    def names(self) -> list[str]:
        """The names that the file binds."""
        return list(self._bound)

    def need(self, name: str) -> bool:
        """Define a name with what it needs; return whether there is one.

        Raises ``ValueError`` where it cannot be defined.
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
                if _is_real(node) and name in _names_of(node):
                    self._run(statement_of(node))
                    return True
        for statement in statements:
            self._run(statement)
        return name in vars(self)

    def method(self, kind: str, name: str) -> Any:
        """Return one method of a class, without the rest of it, or None where there is none."""
        for statement in self._bound.get(kind, []):
            if isinstance(statement.node, ast.ClassDef):
                small = only(statement.node, name)
                if small is not None:
                    found: dict[str, Any] = {}
                    self._run(statement_of(ast.fix_missing_locations(small)), found)
                    return getattr(found[kind], name)
        return None

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
        if self._loader.on_cpu:
            for name in bound_by(statement.node):
                _take_first_config((names or vars(self)).get(name))
        if statement.is_decorated or self._loader.is_settling:
            self.wait(statement)
        for name in statement.handed:
            for handed in self._bound.get(name, []):
                self.wait(handed)

    def wait(self, statement: Statement) -> None:
        """Have defined, as soon as that can be, what the functions of a statement read when they run."""
        self._loader.pending.extend((self, name) for name in statement.later - _BUILTINS)

    def _prepare(self, statement: Statement) -> None:
        """Define what a statement reads while it runs."""
        for name in statement.noted - _BUILTINS if statement.is_decorated else ():
            self._loader.define(self, name)
            vars(self).setdefault(name, Stub(name, "being defined", name))
        for name in statement.at_once - _BUILTINS:
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
        folder = _folder_of(path)
        inner = folder and _module_file(folder / name)
        if inner:
            return self._loader.module(inner)
        where = f"{path.parent.name}.{path.stem}"
        if name in bound or "__getattr__" in bound:
            return Stub(f"{where}.{name}", "known when the engine runs only", name)
        if folder is not None:
            return Stub(f"{where}.{name}", "a module that the source lacks", name)
        raise AttributeError(f"{path} has no {name}")

    def _import(
        self, name: str, globals_: Any = None, locals_: Any = None, names: Any = (), level: int = 0
    ) -> Any:
        """Stand for ``__import__`` in this module: real, inside the source, or a stub."""
        given = {n: self._loader.stubs[n] for n in names or () if n in self._loader.stubs}
        if given and len(given) == len(names):
            return _Given(given)
        if level == 0 and _top(name) in (*REAL, *sys.stdlib_module_names):
            return builtins.__import__(name, None, None, names or ())
        path = self._loader.place(name if names or level else _top(name), self._path, level)
        if path is not None:
            return self._loader.module(path)
        return Stub(name, "foreign") if names else Stub(_top(name), "foreign", _top(name))


class _Given(ModuleType):
    """Names given in the place of a module's."""

    def __init__(self, values: dict[str, Any]) -> None:
        super().__init__("given")
        vars(self).update(values)


class _Uninstalled(ast.NodeTransformer):
    """In a ``try`` that expects it, the import of a foreign package fails, as where it is not installed."""

    def __init__(self, loader: Loader, path: Path) -> None:
        self._loader = loader
        self._path = path

    def visit_Try(self, node: ast.Try) -> ast.AST:
        """Replace foreign imports by what they raise."""
        self.generic_visit(node)
        if any(_catches_imports(handler) for handler in node.handlers):
            node.body = [self._failing(child) for child in node.body]
        return node

    def _failing(self, node: ast.stmt) -> ast.stmt:
        if not isinstance(node, (ast.Import, ast.ImportFrom)):
            return node
        if isinstance(node, ast.ImportFrom) and node.level:
            return node
        name = (node.module or "") if isinstance(node, ast.ImportFrom) else node.names[0].name
        is_here = _top(name) in sys.stdlib_module_names or _is_real(node)
        is_given = any(alias_name(alias) in self._loader.stubs for alias in node.names)
        if is_here or is_given or self._loader.find(name, self._path) is not None:
            return node
        missing = ast.parse(f"raise ImportError({f'{name} is foreign'!r})").body[0]
        return ast.copy_location(missing, node)


def _catches_imports(handler: ast.ExceptHandler) -> bool:
    kinds = ast.walk(handler.type) if handler.type is not None else ()
    return handler.type is None or any(isinstance(k, ast.Name) and k.id in _CAUGHT for k in kinds)


def _names_of(node: ast.stmt) -> set[str]:
    return {alias_name(alias) for child in imports_in(node) for alias in child.names} or bound_by(node)


def _is_real(node: ast.Import | ast.ImportFrom) -> bool:
    if isinstance(node, ast.ImportFrom):
        return node.level == 0 and _top(node.module or "") in REAL
    return _top(node.names[0].name) in REAL


def _top(name: str) -> str:
    return name.partition(".")[0]


def _folder_of(path: Path) -> Path | None:
    """Return the folder of a package, or None for a module that is none."""
    return path if path.is_dir() else path.parent if path.stem == "__init__" else None


def _module_file(path: Path) -> Path | None:
    """Return the file of a module, or the folder of a package without ``__init__.py``, or None."""
    for file in (path.with_name(f"{path.name}.py"), path / "__init__.py"):
        if file.is_file():
            return file
    return path if path.is_dir() else None


def _take_first_config(value: Any) -> None:
    """Leave an autotuned kernel one configuration: the interpreter has no clock to choose by."""
    autotuner = import_module("triton.runtime.autotuner").Autotuner
    for part in (value, *(vars(value).values() if isinstance(value, type) else ())):
        part = getattr(part, "__func__", part)
        while part is not None and not isinstance(part, Stub):
            if isinstance(part, autotuner):
                part.configs = part.configs[:1]
            part = vars(part).get("fn") if hasattr(part, "__dict__") else None

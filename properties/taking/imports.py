"""Resolution of imports in released code: to its own source, to a real package, or to neither."""

import ast
import sys
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cumae.properties.taking.names import alias_name, bound_by, imports_in

REAL = ("torch", "triton", "numpy")
_CAUGHT = {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}


def reaches(name: str, path: Path) -> bool:
    """Return whether a name stands in a file or in its direct or indirect imports."""
    files, seen = deque([path]), {path}
    while files:
        file = files.popleft()
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Name) and node.id == name:
                return True
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                if any(name in (alias.name, alias_name(alias)) for alias in node.names):
                    return True
                new = [found for found in _imported(node, file) if found not in seen]
                seen.update(new)
                files.extend(new)
    return False


def _imported(node: ast.Import | ast.ImportFrom, importer: Path) -> list[Path]:
    """Return the files of the importer's own source that an import may run."""
    if isinstance(node, ast.Import):
        places = [find(alias.name, importer) for alias in node.names]
    else:
        module = place(node.module or "", importer, node.level)
        folder = folder_of(module) if module is not None else None
        places = [module, *(module_file(folder / alias.name) for alias in node.names if folder)]
    return [place for place in places if place is not None and place.is_file()]


def place(name: str, importer: Path, level: int) -> Path | None:
    """Return the file or folder of a module by its name in an import, None for a foreign one."""
    if level == 0:
        return find(name, importer)
    folder = importer.parents[level - 1]
    return module_file(folder.joinpath(*name.split("."))) if name else module_file(folder)


def find(name: str, importer: Path) -> Path | None:
    """Return the file or folder of a module inside the importer's own source, None for a foreign one."""
    first, *rest = name.split(".")
    roots = [Path(*importer.parts[:i]) for i, part in enumerate(importer.parts) if part == first]
    for root in (*roots, importer.parent):
        found = module_file(root.joinpath(first, *rest))
        if found is not None:
            return found
    return None


class Uninstalled(ast.NodeTransformer):
    """Makes imports of foreign packages fail, as if not installed, inside a ``try`` that handles it."""

    def __init__(self, stubs: Mapping[str, Any], path: Path) -> None:
        self._stubs = stubs
        self._path = path

    def visit_Try(self, node: ast.Try) -> ast.AST:
        """Replace foreign imports by ``raise ImportError``."""
        self.generic_visit(node)
        if any(catches_imports(handler) for handler in node.handlers):
            node.body = [self._failing(child) for child in node.body]
        return node

    def _failing(self, node: ast.stmt) -> ast.stmt:
        if not isinstance(node, (ast.Import, ast.ImportFrom)):
            return node
        if isinstance(node, ast.ImportFrom) and node.level:
            return node
        name = (node.module or "") if isinstance(node, ast.ImportFrom) else node.names[0].name
        is_here = top(name) in sys.stdlib_module_names or is_real(node)
        is_given = any(alias_name(alias) in self._stubs for alias in node.names)
        if is_here or is_given or find(name, self._path) is not None:
            return node
        missing = ast.parse(f"raise ImportError({f'{name} is foreign'!r})").body[0]
        return ast.copy_location(missing, node)


def catches_imports(handler: ast.ExceptHandler) -> bool:
    """Return whether a handler serves a failed import."""
    kinds = ast.walk(handler.type) if handler.type is not None else ()
    return handler.type is None or any(isinstance(k, ast.Name) and k.id in _CAUGHT for k in kinds)


def names_of(node: ast.stmt) -> set[str]:
    """Return the names that the imports of a statement bind; without imports, those that it binds."""
    return {alias_name(alias) for child in imports_in(node) for alias in child.names} or bound_by(node)


def is_real(node: ast.Import | ast.ImportFrom) -> bool:
    """Return whether an import names a package that is really imported."""
    if isinstance(node, ast.ImportFrom):
        return node.level == 0 and top(node.module or "") in REAL
    return top(node.names[0].name) in REAL


def top(name: str) -> str:
    """Return the package of a dotted name."""
    return name.partition(".")[0]


def folder_of(path: Path) -> Path | None:
    """Return the folder of a package, or None for a plain module."""
    return path if path.is_dir() else path.parent if path.stem == "__init__" else None


def module_file(path: Path) -> Path | None:
    """Return the file of a module, or the folder of a package without ``__init__.py``, or None."""
    for file in (path.with_name(f"{path.name}.py"), path / "__init__.py"):
        if file.is_file():
            return file
    return path if path.is_dir() else None

"""The modules that a file imports at its top, directly or through its own source, and whether they exist."""

import ast
import importlib.util
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path

from cumae.properties.taking.imports import catches_imports, module_file, top

_OURS = "cumae"


def missing_import(file: Path, folders: Sequence[Path]) -> str:
    """Return a module that must be there to import a file and is not, "" if all are there.

    Nothing is imported. ``folders``: where the file's own source begins; their modules are read in turn, any
    other module must be installed. Imports inside functions, an ``if``, or a ``try`` that handles their
    failure are not needed. A file that imports cumae is a user's own test, for which nothing is missing.
    """
    packages = takewhile(Path.is_file, (folder / "__init__.py" for folder in file.parents))
    waiting = deque([file, *packages])
    seen = {*waiting}
    while waiting:
        importer = waiting.popleft()
        needed = list(_needed(importer))
        if importer == file and any(top(name) == _OURS for name, _, level in needed if level == 0):
            return ""
        for name, names, level in needed:
            folder = importer.parents[level - 1] if level else _owner(top(name), folders)
            if folder is None:
                continue
            parts = name.split(".")
            paths = [folder.joinpath(*parts[: i + 1]) for i in range(len(parts))]
            if not all(map(_is_module, paths)):
                return name
            files = map(module_file, (*paths, *(paths[-1] / taken for taken in names if taken != "*")))
            new = [one for one in files if one is not None and one.is_file() and one not in seen]
            seen.update(new)
            waiting.extend(new)
    return ""


def _needed(file: Path) -> Iterator[tuple[str, tuple[str, ...], int]]:
    """Yield the module, the names taken from it and the level of each import that runs with a file."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError, OSError):  # its import tells
        return
    for node in _running(tree.body):
        if isinstance(node, ast.ImportFrom):
            yield node.module or "", tuple(alias.name for alias in node.names), node.level
        else:
            yield from ((alias.name, (), 0) for alias in node.names)


def _running(body: Sequence[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    for node in body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node
        elif isinstance(node, (ast.ClassDef, ast.With)):
            yield from _running(node.body)
        elif isinstance(node, ast.Try) and not any(map(catches_imports, node.handlers)):
            yield from _running([*node.body, *node.finalbody])


def _owner(package: str, folders: Sequence[Path]) -> Path | None:
    """Return the folder that an import finds a package in, None if it is installed, the first if nowhere."""
    own = [folder for folder in folders if _is_module(folder / package)]
    whole = [folder for folder in own if module_file(folder / package) != folder / package]
    if whole:
        return whole[0]
    is_installed = package in sys.modules or importlib.util.find_spec(package) is not None
    return None if is_installed else (own or folders)[0]


def _is_module(path: Path) -> bool:
    """Return whether a path without suffix is a package, a folder of packages, or a module of any kind."""
    return module_file(path) is not None or any(path.parent.glob(f"{path.name}.*.so"))

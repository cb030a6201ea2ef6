"""Mutants of released kernels: one fault in an engine's file, in a tree of links to the others."""

import ast
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

from cumae.properties.faults.mutants import Mutant, mutant_at
from cumae.properties.faults.places import places_in
from cumae.properties.faults.scope import Part

_MODULE = "cumae_mutated_file"


def kernel_mutants(source: str, names: Sequence[str], most: int) -> list[Mutant]:
    """Return the first ``most`` mutants of each Triton kernel that some definitions of a file use."""
    tree = ast.parse(source)
    defined = {n.name: n for n in tree.body if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
    todo, used = [name.partition(".")[0] for name in names], dict[str, None]()
    while todo:
        name = todo.pop()
        if name in defined and name not in used:
            used[name] = None
            todo += [node.id for node in ast.walk(defined[name]) if isinstance(node, ast.Name)]
    sys.modules[_MODULE] = ModuleType(_MODULE)  # a part looks its names up in its module: none is a validator
    found: list[Mutant] = []
    for name in used:
        node = defined[name]
        if isinstance(node, ast.FunctionDef) and any("jit" in ast.unparse(d) for d in node.decorator_list):
            part = Part(_MODULE, name, True, node)
            found += [mutant_at(part, name, source, place) for place in places_in(node, part)[:most]]
    return found


@contextmanager
def planted(root: Path, file: str, source: str) -> Iterator[Path]:
    """Yield a tree of links to a folder of packages, in which one file has another source."""
    with TemporaryDirectory() as folder:
        here = Path(folder)
        for part in Path(file).parent.parts:
            _link(root, here, part)
            root, here = root / part, here / part
            here.mkdir()
        _link(root, here, Path(file).name)
        (here / Path(file).name).write_text(source, encoding="utf-8")
        yield Path(folder)


def _link(root: Path, here: Path, but: str) -> None:
    """Link what a folder holds, but one name."""
    for path in root.iterdir():
        if path.name != but:
            (here / path.name).symlink_to(path)

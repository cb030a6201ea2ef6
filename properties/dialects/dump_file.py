"""Read the files of dumps: tensors and numbers by name, or a whole object of an engine."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

import numpy as np

from cumae.oracle.model.case_json import parse
from cumae.oracle.model.rules import require

SUFFIXES = (".json", ".npz", ".pt")
Dump = Mapping[str, Any]


class Foreign:
    """An object of a class that is not imported: an engine's enum, or its record of a step.

    ``arguments``: what it was made from, such as the number of an enum. Its attributes are those saved.
    """

    arguments: tuple[Any, ...]

    def __new__(cls, *arguments: Any) -> "Foreign":
        """Return an instance that only remembers its arguments."""
        made = object.__new__(cls)
        made.arguments = arguments
        return made

    def __init__(self, *arguments: Any) -> None:
        pass


def read_dump(file: Path) -> Dump:
    """Return the tensors and numbers of a file by name: JSON lists, NumPy's npz, or a file of torch.save.

    An object that torch.save wrote gives its attributes; an enum gives its number or its name. No class of
    an engine is imported, and no code of the file runs. Values that are None are left out. Raises
    ``ValueError`` for another suffix, and for unreadable content.
    """
    require(file.suffix in SUFFIXES, f"{file}: suffix", file.suffix, f"be one of {', '.join(SUFFIXES)}")
    try:
        if file.suffix == ".json":
            content: Any = parse(file.read_bytes(), str(file))
        elif file.suffix == ".npz":
            with np.load(file, allow_pickle=False) as arrays:
                content = dict(arrays)
        else:
            content = _load(file)
    except Exception as error:
        why = f"{type(error).__name__}: {error}".splitlines()[0]
        raise ValueError(f"{file}: content, must be tensors by name: {why}") from error
    if isinstance(content, Foreign):
        content = vars(content)
    require(isinstance(content, dict), f"{file}: content", type(content).__name__, "be tensors by name")
    dump = {str(name): _plain(value) for name, value in content.items()}
    return {name: value for name, value in dump.items() if value is not None}


def is_dump(file: Path) -> bool:
    """Return whether a file is a dump, by its suffix or its keys, and no case or failure file of our own."""
    if file.suffix in (".npz", ".pt"):
        return True
    try:
        content = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and not {"batch", "case", "trace"} & content.keys()


def _load(file: Path) -> Any:
    """Return what torch.save wrote, with a ``Foreign`` for each object of a class unknown to torch."""
    import torch

    names = torch.serialization.get_unsafe_globals_in_checkpoint(file) if is_zipfile(file) else []
    stand_ins: list[Any] = [(type(name, (Foreign,), {}), name) for name in names]
    with torch.serialization.safe_globals(stand_ins):
        return torch.load(file, map_location="cpu", weights_only=True)


def _plain(value: Any) -> Any:
    """Return the number or the name of a foreign enum, and any other value unchanged."""
    if isinstance(value, Foreign) and value.arguments:
        return value.arguments[-1]
    return value

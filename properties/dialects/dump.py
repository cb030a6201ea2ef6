"""Read the tensors of an engine, dumped to a file or passed in, as a case."""

import inspect
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cumae.oracle import Case
from cumae.oracle.model.case_json import parse
from cumae.oracle.model.rules import require
from cumae.properties.dialects import DIALECTS

SUFFIXES = (".json", ".npz", ".pt")
Dump = Mapping[str, Any]


def read_dump(file: Path) -> Dump:
    """Return the tensors and numbers of a file by name: JSON lists, NumPy's npz, or a file of torch.save.

    Raises ``ValueError`` for another suffix, and for unreadable content.
    """
    require(file.suffix in SUFFIXES, f"{file}: suffix", file.suffix, f"be one of {', '.join(SUFFIXES)}")
    try:
        if file.suffix == ".json":
            content: Any = parse(file.read_bytes(), str(file))
        elif file.suffix == ".npz":
            with np.load(file, allow_pickle=False) as arrays:
                content = dict(arrays)
        else:
            import torch

            content = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:
        why = f"{type(error).__name__}: {error}".splitlines()[0]
        raise ValueError(f"{file}: content, must be tensors by name: {why}") from error
    require(isinstance(content, dict), f"{file}: content", type(content).__name__, "be tensors by name")
    dump: Dump = content
    return dump


def is_dump(file: Path) -> bool:
    """Return whether a file is a dump, by its suffix or its keys, and no case or failure file of our own."""
    if file.suffix in (".npz", ".pt"):
        return True
    try:
        content = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and not {"batch", "case", "trace"} & content.keys()


def case_of(dump: Dump, dialect: str) -> Case:
    """Return the case that a dump describes.

    Raises ``ValueError`` if the tensors are not a step of that engine.
    """
    require(dialect in DIALECTS, "dialect", dialect, f"be one of {', '.join(DIALECTS)}")
    capture = DIALECTS[dialect].capture
    parameters = inspect.signature(capture).parameters if capture else {}
    outputs = (output.name for known in DIALECTS[dialect].outputs.values() for output in known)
    named = {*outputs, *DIALECTS[dialect].inputs}
    for name in dump:
        known = ", ".join(sorted({*parameters, *named}))
        require(name in parameters or name in named, "tensor", name, f"be one that {dialect} has: {known}")
    return case_from_tensors(dialect, **{name: dump[name] for name in dump if name in parameters})


def case_from_tensors(dialect: str, **tensors: Any) -> Case:
    """Return the case that the named tensors of an engine describe.

    Each tensor is a torch tensor, a NumPy array or a list; the dialect's page lists the names. A name that is
    left out, or given as None, is unknown. Raises ``ValueError`` for a dialect that cannot read tensors back,
    for an unknown or missing name, and if the values cannot be a step.
    """
    captures = {name: known.capture for name, known in DIALECTS.items() if known.capture is not None}
    capture = captures.get(dialect)
    if capture is None:
        raise ValueError(f"dialect = {dialect!r}, must be one that reads tensors: {', '.join(captures)}")
    parameters = inspect.signature(capture).parameters
    for name in tensors:
        known = f"be a tensor that {dialect} reads: {', '.join(parameters)}"
        require(name in parameters, "tensor", name, known)
    given = {name: value for name, value in tensors.items() if value is not None}
    for name, parameter in parameters.items():
        needed = parameter.default is inspect.Parameter.empty
        require(name in given or not needed, name, None, f"be given: every step of {dialect} needs it")
    return capture(**given)

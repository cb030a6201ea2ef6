"""One function in two versions of a source tree, each bound without importing its package."""

import inspect
from pathlib import Path
from types import FunctionType
from typing import Any

from cumae.oracle.model.rules import require, require_choice
from cumae.properties.engines.released import ENGINES, engine_of
from cumae.properties.operations.binding import Binding, binding_of
from cumae.properties.taking.stub import Stub
from cumae.properties.taking.take import take

Signatures = dict[str, tuple[str, ...]]


def binding_at(
    field: str, target: str, root: Path, operation: str | None, dialect: str
) -> tuple[Binding, Signatures]:
    """Return the binding of a function in a source tree, and the signatures of what was taken for it.

    ``target``: ``path/in/tree.py:function``, or ``vllm:name`` for an adapter, which brings its operation, its
    dialect and its domain. Raises ``ValueError`` naming the field if the tree lacks the function.
    """
    place, _, name = target.rpartition(":")
    require(bool(place and name), "TARGET", target, "be path/in/tree.py:function, or vllm:name of an adapter")
    own = place in ENGINES
    require(own or operation is not None, "--op", operation, "name the operation that TARGET computes")
    require(not own or operation is None, "--op", operation, "be left out: the adapter brings its own")
    try:
        if own:
            require_choice("TARGET", name, tuple(engine_of(place).adapters))
            adapter = engine_of(place).adapters[name]
            _require_file(root, adapter.file)
            binding = binding_of(adapter.function(root), adapter.operation, adapter.dialect, adapter.domain)
            return binding, _signatures(adapter.names, adapter.definitions(root))
        _require_file(root, place)
        (function,) = definitions = (take(root / place, name),)
        return binding_of(function, operation or "", dialect), _signatures((name,), definitions)
    except ValueError as error:
        said = str(error).replace(f"{root.resolve()}/", "")
        raise ValueError(f"{field}, must have {target}: {said}") from error


def _require_file(root: Path, file: str) -> None:
    """Raise ``ValueError`` unless a source tree has a file, in SGLang's checkout below ``python``."""
    if not any((folder / file).is_file() for folder in (root, root / "python")):
        raise ValueError(f"there is no file {file}")


def _signatures(names: tuple[str, ...], definitions: tuple[Any, ...]) -> Signatures:
    """Return the parameters without a default of each function and kernel, and of a class and its call."""
    found: Signatures = {}
    for name, value in zip(names, definitions, strict=True):
        kind = _inner(value)
        called = {name: kind}
        if isinstance(kind, type):
            called = {
                f"{name}.{method}": _inner(vars(kind).get(method)) for method in ("__init__", "__call__")
            }
        for full_name, function in called.items():
            if isinstance(function, FunctionType):
                parameters = inspect.signature(function).parameters.values()
                found[full_name] = tuple(
                    str(one.replace(annotation=one.empty)) for one in parameters if one.default is one.empty
                )
    return found


def _inner(value: Any) -> Any:
    """Return the function that a kernel or a static method holds, or the value itself."""
    while not isinstance(value, (FunctionType, type)) and not isinstance(value, Stub):
        held = getattr(value, "fn", None) or getattr(value, "__func__", None)
        if held is None:
            return value
        value = held
    return value

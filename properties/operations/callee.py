"""Functions under test: functions, classes, and other callables with named arguments."""

import inspect
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any

Function = Callable[..., Any]
_BY_NAME = "write a function that names its arguments and calls it"


def by_name(function: Any) -> Function:
    """Return a callable as a function or class that is called by argument names and has a name itself.

    Functions and classes are returned unchanged. An instance, a bound method and a partial keep their
    remaining names, a torch module has the names of ``forward``, an operator of ``torch.ops`` those of its
    schema. Raises ``ValueError`` for a kernel without its launcher, for a callable without argument names,
    and for one that does not run when it is called.
    """
    name = str(getattr(_inner(function), "__qualname__", None) or function)
    if any(kind.__name__ == "KernelInterface" for kind in type(function).__mro__):
        while not isinstance(function, FunctionType) and hasattr(function, "fn"):
            function = function.fn
        raise ValueError(
            f"target = {getattr(function, '__name__', name)!r}, must be the function that launches this "
            "kernel: only it knows the grid"
        )
    if inspect.isclass(function):
        return function
    if type(function).__module__.startswith(("torch._ops", "torch._library")):
        return _operator(function)
    if not callable(function):
        raise ValueError(f"target = {function!r}, must be a function or a class")
    called = called_of(function)
    for kind, is_one in _NEVER_RUN.items():
        if is_one(called):
            raise ValueError(
                f"target = {name!r}, must run when it is called: {kind}, write a function that runs it"
            )
    signature = signature_of(called)
    if isinstance(function, FunctionType) and function.__name__ != "<lambda>":
        return function
    return _renamed(function, signature, *_place_of(function))


def home_of(function: Function) -> str:
    """Return the module of a function, or the file of the running script, from which it can be loaded."""
    module = function.__module__
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    if module != "__main__" or script is None:
        return module
    file = Path(script).resolve()
    return str(file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file)


def called_of(function: Any) -> Function:
    """Return the object with a callable's argument names: ``forward`` of a torch module, else itself."""
    torch = sys.modules.get("torch")
    is_module = torch is not None and isinstance(function, torch.nn.Module)
    called: Function = function.forward if is_module else function
    return called


def signature_of(function: Function) -> inspect.Signature:
    """Return the signature of a callable. Raises ``ValueError`` if Python knows none."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError) as error:
        name = getattr(function, "__qualname__", None) or repr(function)
        raise ValueError(f"target = {name!r}, must have arguments by name: {_BY_NAME}") from error


def required(function: Function) -> list[str]:
    """Return the names of the parameters without a default.

    Raises ``ValueError`` for one that cannot be filled by name.
    """
    names: list[str] = []
    for parameter in signature_of(function).parameters.values():
        if parameter.default is not inspect.Parameter.empty:
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            name = getattr(function, "__qualname__", function)
            raise ValueError(f"parameter = {str(parameter)!r} of {name}, must be filled by name: {_BY_NAME}")
        names.append(parameter.name)
    return names


def with_default(function: Function) -> list[str]:
    """Return the names of the parameters that have a default, which nothing is passed to."""
    empty = inspect.Parameter.empty
    return [name for name, one in signature_of(function).parameters.items() if one.default is not empty]


def required_to_make(kind: type) -> list[str]:
    """Return the names of a class's constructor arguments; none for a torch module without its own."""
    torch = sys.modules.get("torch")
    is_torchs = torch is not None and getattr(kind, "__init__", None) is torch.nn.Module.__init__
    return [] if is_torchs else required(kind)


def call_of(kind: type) -> Function:
    """Return the method that calls instances of a class. Raises ``ValueError`` if there is none."""
    torch = sys.modules.get("torch")
    name = "forward" if torch is not None and issubclass(kind, torch.nn.Module) else "__call__"
    for base in inspect.getmro(kind):
        if name in vars(base):
            method: Function = vars(base)[name]
            return method
    raise ValueError(f"target = {kind.__name__!r}, must have a method __call__, which runs a step")


def _runs_async(function: Function) -> bool:
    call = getattr(function, "__call__", None)  # noqa: B004 — the method of an instance
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def _yields(function: Function) -> bool:
    kinds = (inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    call = getattr(function, "__call__", None)  # noqa: B004 — as above
    return any(kind(function) or kind(call) for kind in kinds)


_NEVER_RUN = {"it is async": _runs_async, "it is a generator": _yields}


def _operator(function: Any) -> Function:
    """Return an operator of ``torch.ops`` as a function with its schema's names.

    The function omits returned aliases of arguments that the operator writes in place.
    """
    overload = getattr(function, "_opoverload", function)
    if hasattr(overload, "overloads"):
        names = overload.overloads()
        if len(names) > 1 and "default" not in names:
            those = ", ".join(f".{name}" for name in names)
            raise ValueError(f"target = 'torch.ops.{overload}', must be one of its overloads: {those}")
        overload = getattr(overload, "default" if "default" in names else names[0])
    schema = overload._schema
    parameters = [
        inspect.Parameter(
            argument.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=argument.default_value if argument.has_default_value() else inspect.Parameter.empty,
        )
        for argument in schema.arguments
    ]
    written = [bool(r.alias_info is not None and r.alias_info.is_write) for r in schema.returns]

    def call(**arguments: Any) -> Any:
        answer = overload(**arguments)
        if not any(written):
            return answer
        answers = (answer,) if len(written) == 1 else answer
        left = tuple(value for value, is_written in zip(answers, written, strict=True) if not is_written)
        return left[0] if len(left) == 1 else left or None

    place = ("torch", f"ops.{str(overload).removesuffix('.default')}")
    return _renamed(call, inspect.Signature(parameters), *(_found(function) or place))


def _renamed(function: Any, signature: inspect.Signature, module: str, name: str) -> Function:
    """Return a function that calls another one, with the given signature and name."""

    def call(**arguments: Any) -> Any:
        return function(**arguments)

    call.__module__, call.__qualname__, call.__name__ = module, name, name.rpartition(".")[2]
    for attribute, value in (("__signature__", signature), ("__wrapped__", function)):
        setattr(call, attribute, value)
    return call


def _inner(function: Any) -> Any:
    """Return the function inside partials, or the class of an instance."""
    while isinstance(function, partial):
        function = function.func
    return function if hasattr(function, "__qualname__") else type(function)


def _place_of(function: Any) -> tuple[str, str]:
    """Return module and name of a callable, or a description if no module holds it."""
    inner = _inner(function)
    owner = getattr(function, "__self__", None)
    if found := _found(function):
        return found
    if inspect.ismethod(function) and not inspect.isclass(owner):
        held = _found(owner)
        if held is not None:
            return held[0], f"{held[1]}.{function.__name__}"
        return inner.__module__, f"{type(owner).__qualname__}().{function.__name__}"
    name = inner.__qualname__
    if isinstance(function, partial):
        name = f"partial({name})"
    elif inner is type(function):
        name = f"{name}()"
    return str(inner.__module__), name


def _found(value: Any) -> tuple[str, str] | None:
    """Return the module and name under which a module holds a value; its own module is tried first."""
    own = getattr(_inner(value), "__module__", "")
    for module in (own, *sorted(sys.modules)):
        names = getattr(sys.modules.get(module), "__dict__", {}) if module != "__main__" else {}
        for name, held in list(names.items()):
            if held is value:
                return module, name
    return None

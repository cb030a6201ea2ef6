"""The integers that a function shows: in its code, and in everything that its code reaches.

A limit such as "one tile of 512 tokens" often stands in the source. Cases on both sides of it find it.
"""

import dis
import sys
from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

WIDEST_SHIFT = 31
MOST_OBJECTS = 2_000
"""Objects looked at: an end for code that reaches a whole engine."""
_NARROW = {"int8": 2**7, "uint8": 2**8, "int16": 2**15, "uint16": 2**16, "short": 2**15}
_NARROW |= {"bfloat16": 2**8, "float16": 2**11, "half": 2**11}
"""The first integer beyond the range of a dtype, or beyond the integers that it holds without gaps."""
_OPERATORS = {"BINARY_RSHIFT": ">>", "BINARY_LSHIFT": "<<", "BINARY_AND": "&"}
"""Instructions of Python 3.10; later ones have one instruction and the operator as text."""
_NOT_THE_USERS = frozenset(sys.stdlib_module_names) | {"torch", "triton", "numpy", "hypothesis", "pytest"}
_PLAIN = (str, bytes, float, complex, type(None))


def constants_of(function: Any) -> list[int]:
    """Return the integers that a function shows, each once, in the order in which they are met.

    Looked at are its code, closures and defaults, the globals that it names, with tuples and dicts, the
    functions, classes and kernels that it reaches in this way, attributes of instances, and configurations
    of autotuned kernels. A shift by k adds 2^k, a mask m adds m + 1, and a narrow dtype adds the first
    integer that it cannot hold. Code of torch, Triton, NumPy, the standard library and this suite is left
    out.
    """
    found: dict[int, None] = {}
    seen: set[int] = set()
    todo: list[Any] = [function]
    while todo and len(seen) < MOST_OBJECTS:
        one = todo.pop(0)
        if isinstance(one, int):
            found[int(one)] = None
        elif id(one) not in seen and not isinstance(one, _PLAIN):
            seen.add(id(one))
            todo += _reached(one)
    return list(found)


def _reached(one: Any) -> list[Any]:
    """Return the integers and objects that an object shows."""
    if isinstance(one, CodeType):
        return [*_in_code(one), *(const for const in one.co_consts)]
    if isinstance(one, (tuple, list, set, frozenset)):
        return list(one)
    if isinstance(one, Mapping):
        return [*one.values()]
    if isinstance(one, ModuleType):
        return []
    if isinstance(one, (MethodType, staticmethod, classmethod)):
        return [one.__func__, getattr(one, "__self__", None)]
    if isinstance(one, property):
        return [one.fget]
    if type(one).__name__ == "constexpr":
        return [one.value]
    if _home(one) in _NOT_THE_USERS and not _holds_users_code(one):
        return []
    if isinstance(one, FunctionType):
        return _in_function(one)
    return list(_attributes(one))


def _in_function(function: FunctionType) -> list[Any]:
    named = [*_globals(function), *(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    cells = [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
    return [*vars(function).values(), function.__code__, *cells, *named]


def _is_filled(cell: Any) -> bool:
    return bool(cell != type(cell)())


def _globals(function: FunctionType) -> Iterator[Any]:
    """Yield the globals that the code names, and the values that it names in a global module."""
    codes = [function.__code__]
    while codes:
        code = codes.pop()
        codes += [const for const in code.co_consts if isinstance(const, CodeType)]
        values = [function.__globals__[name] for name in code.co_names if name in function.__globals__]
        yield from values
        for module in values:
            if isinstance(module, ModuleType) and _root(module.__name__) not in _NOT_THE_USERS:
                yield from (vars(module)[name] for name in code.co_names if name in vars(module))


def _attributes(one: Any) -> Iterator[Any]:
    """Yield the attributes of a class with its bases, or of an object and of its class."""
    kind = one if isinstance(one, type) else type(one)
    for base in kind.__mro__:
        if _root(base.__module__) not in _NOT_THE_USERS:
            yield from (value for name, value in vars(base).items() if not _is_pythons(name))
    if not isinstance(one, type):
        yield from (value for name, value in _own(one).items() if not _is_pythons(name))


def _own(one: Any) -> Mapping[str, Any]:
    """Return the attributes of an object; of a kernel or a partial, those that hold the user's code."""
    held = {name: getattr(one, name) for name in ("fn", "func", "args", "keywords") if hasattr(one, name)}
    if _home(one) in _NOT_THE_USERS:
        configs = [config.kwargs for config in getattr(one, "configs", None) or ()]
        values = getattr(one, "values", None)
        return held | {"configs": configs, "values": values if isinstance(values, Mapping) else {}}
    slots = (name for base in type(one).__mro__ for name in getattr(base, "__slots__", ()))
    return (
        held
        | {name: getattr(one, name) for name in slots if hasattr(one, name)}
        | getattr(one, "__dict__", {})
    )


def _holds_users_code(one: Any) -> bool:
    return hasattr(one, "fn") or hasattr(one, "func")


def _is_pythons(name: str) -> bool:
    return (
        name.startswith("__") and name.endswith("__") and name not in ("__init__", "__call__", "__wrapped__")
    )


def _home(one: Any) -> str:
    home = getattr(one, "__module__", None) or type(one).__module__
    return _root(home) if isinstance(home, str) else ""


def _root(module: str) -> str:
    suite = ("cumae.oracle", "cumae.properties")
    return "torch" if module.startswith(suite) and ".tests." not in module else module.partition(".")[0]


def _in_code(code: CodeType) -> Iterator[int]:
    """Yield what shifts, masks and names of dtypes say; the constants themselves are met apart."""
    before: Any = None
    for instruction in dis.get_instructions(code):
        operator = _OPERATORS.get(instruction.opname) or instruction.argrepr.rstrip("=")
        value = before.argval if before is not None and before.opname.startswith("LOAD_") else None
        if type(value) is int and instruction.opname.startswith(("BINARY_", "INPLACE_")):
            if operator in (">>", "<<") and 0 < value <= WIDEST_SHIFT:
                yield 2**value
            if operator == "&":
                yield value + 1
        before = instruction
    for name in (*code.co_names, *(const for const in code.co_consts if isinstance(const, str))):
        if name in _NARROW:
            yield _NARROW[name]

"""The integers that a function shows: in its code, and in everything that its code reaches.

A limit such as "one tile of 512 tokens" often stands in the source. Cases on both sides of it find it.
"""

import dis
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from types import CodeType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

WIDEST_SHIFT = 31
MOST_OBJECTS = 2_000
"""Objects looked at: an end for code that reaches a whole engine."""
_NARROW = {"int8": 2**7, "uint8": 2**8, "int16": 2**15, "uint16": 2**16, "short": 2**15}
_NARROW |= {"bfloat16": 2**8, "float16": 2**11, "half": 2**11}
"""The first integer beyond the range of a dtype, or beyond the integers that it holds without gaps."""
_OPERATORS = {"BINARY_RSHIFT": ">>", "BINARY_LSHIFT": "<<", "BINARY_AND": "&"}
"""Instructions of Python 3.10; later ones have one instruction and the operator as text."""
_FOREIGN = frozenset(sys.stdlib_module_names) | {"torch", "triton", "numpy", "hypothesis", "pytest"}
_SUITE, _ITS_TESTS = ("cumae.oracle", "cumae.properties"), "cumae.properties.tests"
_USERS_METHODS = ("__init__", "__call__", "__wrapped__")
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
        return [*_in_code(one), *one.co_consts]
    if isinstance(one, (tuple, list, set, frozenset)):
        return list(one)
    if isinstance(one, Mapping):
        return list(one.values())
    if isinstance(one, ModuleType):
        return []
    if isinstance(one, (MethodType, staticmethod, classmethod)):
        return [one.__func__, getattr(one, "__self__", None)]
    if isinstance(one, property):
        return [one.fget]
    if type(one).__name__ == "constexpr":
        return [one.value]
    if isinstance(one, partial):
        return [one.func, one.args, one.keywords]
    if isinstance(one, FunctionType):
        return _in_function(one) if _is_users(one.__module__) else []
    if not isinstance(one, type) and "fn" in _held(one):
        return _in_kernel(_held(one))
    return list(_attributes(one))


def _in_function(function: FunctionType) -> list[Any]:
    named = [*_globals(function), *(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    cells = [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
    return [*vars(function).values(), function.__code__, *cells, *named]


def _is_filled(cell: Any) -> bool:
    return bool(cell != type(cell)())


def _in_kernel(held: Mapping[str, Any]) -> list[Any]:
    """Return the function inside a kernel, and the configurations and heuristics that set its constants."""
    configs = [_held(config).get("kwargs", {}) for config in held.get("configs") or ()]
    return [held["fn"], configs, held.get("values")]


def _globals(function: FunctionType) -> Iterator[Any]:
    """Yield the globals that the code names, and the values that it names in a global module."""
    codes = [function.__code__]
    while codes:
        code = codes.pop()
        codes += [const for const in code.co_consts if isinstance(const, CodeType)]
        values = [function.__globals__[name] for name in code.co_names if name in function.__globals__]
        yield from values
        for module in values:
            if isinstance(module, ModuleType) and _is_users(module.__name__):
                yield from (vars(module)[name] for name in code.co_names if name in vars(module))


def _attributes(one: Any) -> Iterator[Any]:
    """Yield the attributes of a class with its bases, or of an object and of its class."""
    kind = one if isinstance(one, type) else type(one)
    users = [base for base in kind.__mro__ if _is_users(base.__module__)]
    for base in users:
        yield from (value for name, value in vars(base).items() if _is_written(name))
    if users and not isinstance(one, type):
        slots = (
            slot for base in users for slot in vars(base).values() if isinstance(slot, MemberDescriptorType)
        )
        yield from (slot.__get__(one) for slot in slots if _is_set(slot, one))
        yield from _held(one).values()


def _held(one: Any) -> Mapping[str, Any]:
    """Return an object's own attributes; none is computed, so that no code of the object runs."""
    return vars(one) if type(one).__dictoffset__ else {}


def _is_set(slot: MemberDescriptorType, one: Any) -> bool:
    try:
        slot.__get__(one)
    except AttributeError:
        return False
    return True


def _is_written(name: str) -> bool:
    """Whether an attribute of a class is the user's and not Python's."""
    return not (name.startswith("__") and name.endswith("__")) or name in _USERS_METHODS


def _is_users(module: str | None) -> bool:
    """Whether a module belongs neither to a foreign package nor to this suite; its tests count as users."""
    if module is None or module.partition(".")[0] in _FOREIGN:
        return False
    return not module.startswith(_SUITE) or module.startswith(_ITS_TESTS)


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

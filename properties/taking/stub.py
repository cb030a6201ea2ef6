"""Stubs for names of foreign packages, and for names that could not be defined."""

from collections.abc import Callable, Iterator
from typing import Any, NoReturn

_ARITHMETIC = (
    "abs add and ceil divmod float floordiv floor ge gt index int invert le len lshift lt matmul mod mul neg "
    "pos pow radd rand rdivmod rfloordiv rlshift rmatmul rmod rmul rpow rrshift rshift rsub rtruediv "
    "rxor sub truediv trunc xor"
).split()


class NotGiven(ValueError):
    """Raised if the value of a stub is needed."""


class Stub:
    """A placeholder for a name: usable while code is defined, an error where a value is needed.

    It serves as base class (instances keep their arguments under the names of annotated fields), decorator,
    context manager, generic and pair. Its attributes and calls are stubs, and it is false. Arithmetic, order,
    conversion to a number and use as keyword arguments raise ``NotGiven`` with the name to give.
    """

    def __init__(self, path: str, why: str, given: str = "") -> None:
        """Stand for a dotted path; ``given``: the name to give a value for, by default the next attribute."""
        self._path = path
        self._why = why
        self._given = given
        said = f"stub of {path} = {why}, must be given because its value is used: take(…, {given}=…)"
        self.__class__ = type(said, (Stub,), {})  # torch's message for an argument that it refuses

    def __getattr__(self, name: str) -> "Stub":
        if name.startswith("__"):
            raise AttributeError(name)
        return Stub(f"{self._path}.{name}", self._why, self._given or name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the decorated function or class, else a stub."""
        if len(args) == 1 and not kwargs and callable(args[0]) and not isinstance(args[0], Stub):
            return args[0]
        return Stub(f"{self._path}(…)", self._why, self._given)

    def __getitem__(self, key: object) -> "Stub":
        return self

    def __iter__(self) -> Iterator["Stub"]:
        return iter((self, self))

    def __enter__(self) -> "Stub":
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def __bool__(self) -> bool:
        return False

    def __or__(self, other: object) -> "Stub":
        return self

    def __ror__(self, other: object) -> "Stub":
        return self

    def keys(self) -> NoReturn:
        """Raise ``NotGiven``: keyword arguments, as in ``f(**stub)``, have no names."""
        raise NotGiven(_told(self))

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return (type("StubBase", (), {"__init__": _keep, "__init_subclass__": _subclass}),)

    def __instancecheck__(self, value: object) -> bool:
        return False

    def __subclasscheck__(self, kind: type) -> bool:
        return False

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


def _keep(self: object, *args: object, **kwargs: object) -> None:
    fields = [name for kind in type(self).__mro__[::-1] for name in getattr(kind, "__annotations__", ())]
    for name, value in {**dict(zip(fields, args, strict=False)), **kwargs}.items():
        object.__setattr__(self, name, value)


@classmethod  # type: ignore[misc]
def _subclass(kind: type, **kwargs: object) -> None:
    """Accept the keyword arguments of a class statement."""


def _told(stub: Stub) -> str:
    return type(stub).__name__.removeprefix("stub of ")


def _refused(name: str) -> Callable[..., NoReturn]:
    def refuse(self: Stub, *args: object) -> NoReturn:
        raise NotGiven(_told(self))

    refuse.__name__ = name
    return refuse


for _name in _ARITHMETIC:
    setattr(Stub, f"__{_name}__", _refused(f"__{_name}__"))

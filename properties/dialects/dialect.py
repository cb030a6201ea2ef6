"""A dialect: an engine's names for kernel arguments, and how it holds them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from cumae.oracle import Case, GarbageKind, Inputs
from cumae.oracle.model.rules import did_you_mean, require
from cumae.properties.dialects.held import Floats, Held, Ints, ints
from cumae.properties.dialects.output import Output


@dataclass(frozen=True, slots=True)
class Input:
    """An argument a kernel may name: how it is held, and which features of a case it shows.

    ``alias``: the input that this name is an alias of. ``has_slots``: whether it has an entry for each slot.
    """

    hold: Callable[[Inputs], Held]
    carries: tuple[str, ...] = ()
    alias: str = ""
    has_slots: bool = False


def host_number(value: Callable[[Case], int], *carries: str) -> Input:
    """Return an input that is a number of the case; it shows the features ``carries``."""
    return Input(lambda inputs: value(inputs.case), carries)


def held_ints(dtype: str, values: Callable[[Inputs], Sequence[Any]], *carries: str) -> Input:
    """Return an input that is a tensor of integers; it shows the features ``carries``."""
    return Input(lambda inputs: ints(values(inputs), dtype, inputs.case.layout.garbage), carries)


@dataclass(frozen=True, slots=True)
class Dialect:
    """Names of inputs, and by operation the outputs that differ from the operation's own.

    ``own_outputs``: whether the operation's own output names exist here too. ``quiet_garbage``: the engine's
    usual content of unused entries, for checks that do not test garbage. ``reserved_blocks``: lowest block
    ids that belong to no request. ``values``: those that an option has here, if not all. ``capture``: returns
    the case of tensors dumped from this engine; it takes them by name and may raise ValueError.
    ``row_name``: the input that gives each request's row of the table, "" if requests have the rows in their
    order. ``rowless_requests``: whether a request may have no row. ``pads_requests``: whether the padded
    tokens of decodes are those of padded requests, whatever a case says.
    """

    name: str
    inputs: Mapping[str, Input]
    outputs: Mapping[str, tuple[Output, ...]] = field(default_factory=dict)
    own_outputs: bool = True
    quiet_garbage: GarbageKind = "minus_one"
    reserved_blocks: int = 0
    values: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    capture: Callable[..., Case] | None = None
    row_name: str = ""
    rowless_requests: bool = True
    pads_requests: bool = False

    def __repr__(self) -> str:
        return f"<Dialect {self.name}>"

    def table_rows(self, case: Case) -> list[int]:
        """Return the table row of each request, as the engine counts rows."""
        count = len(case.batch.requests)
        if not self.row_name:
            return list(range(count))
        held = self.inputs[self.row_name].hold(Inputs(case))
        assert isinstance(held, Ints)
        rows: list[int] = held.values[:count].tolist()
        return rows

    def extend(self, **inputs: Input | Callable[[Case], Any] | str) -> "Dialect":
        """Return the dialect with more inputs, each an ``Input``, a function of the case, or an input's name.

        The name of an existing input defines an alias. Under an alias, a function may also read an array that
        is an output of its operation here.

        The function returns a host number, a string or None, or a NumPy array of bool, uint8, int32, int64,
        float16 or float32, which a kernel gets as a tensor. Raises ``ValueError`` for a name that exists
        already, and for any other kind of value.
        """
        added = dict(self.inputs)
        for name, given in inputs.items():
            require(name not in self.inputs, "input", name, f"be new: dialect {self.name} has it")
            if isinstance(given, str):
                hint = did_you_mean(given, self.inputs)
                rule = f"be an input of dialect {self.name}"
                require(given in self.inputs, name, given, rule, hint=hint)
                known = self.inputs[given]
                added[name] = replace(known, alias=known.alias or given)
            elif isinstance(given, Input):
                added[name] = given
            else:
                rule = (
                    "be an Input, a function of the case, or the name of an input; "
                    f"a value that all cases share is {name}=lambda case: …"
                )
                require(callable(given), name, given, rule)
                added[name] = _of_case(name, given)
        return replace(self, inputs=added)


_FLOATS = {"float16": "fp16", "float32": "fp32"}
"""Dtypes of numbers in NumPy, as a tensor of them is held."""


def _of_case(name: str, value_of: Callable[[Case], Any]) -> Input:
    def hold(inputs: Inputs) -> Held:
        value = value_of(inputs.case)
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, np.ndarray):
            dtype = str(value.dtype)
            require(value.ndim > 0, f"{name}.shape", value.shape, "have a dimension; a number needs no array")
            if dtype in _FLOATS:
                return Floats(value.astype(np.float64), _FLOATS[dtype])
            rule = "be bool, uint8, int32, int64, float16 or float32"
            require(dtype in ("bool", "uint8", "int32", "int64"), f"{name}.dtype", dtype, rule)
            steps = np.cumprod([1, *map(lambda n: max(n, 1), value.shape[:0:-1])])[::-1]
            return Ints(value.astype(np.int64), dtype, tuple(int(step) for step in steps[: value.ndim]))
        plain = value is None or isinstance(value, (bool, int, float, str))
        rule = "be a number, a string, None or a NumPy array, which the function gets as a tensor"
        require(plain, name, type(value).__name__, rule)
        held: Held = value
        return held

    return Input(hold)

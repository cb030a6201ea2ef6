"""Returned outputs by name: tensors, host numbers, lists of numbers."""

from collections.abc import Iterable, Mapping, ValuesView
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from cumae.oracle import Case
from cumae.properties.operations.binding import Binding
from cumae.properties.operations.outputs import accepted_shapes, shape_of
from cumae.properties.running.allocations import FencedAllocations
from cumae.properties.running.buffer import Buffer
from cumae.properties.running.observation import KernelRaised, Observation
from cumae.properties.running.words import Words, poison_words, torch_dtype, words_of

Returned = torch.Tensor | int | list[int]
_PLAIN = (torch.Tensor, int)
"""Accepted classes of returned values. Subclasses are not: they may override comparison and conversion."""


def returned_by(binding: Binding, answer: Any) -> dict[str, Returned]:
    """Return the returned values by output name; a dict may name some of them only.

    Raises ``KernelRaised`` if the values do not fit the names.
    """
    names = binding.returned
    if not names or (answer is None and binding.outputs):
        return {}
    if isinstance(answer, dict):
        names = _named_in(answer, names, binding.outputs)
        values: list[Any] = [dict.get(answer, name) for name in names]
    else:
        is_list = isinstance(answer, (tuple, list)) and not (len(names) == 1 and _is_ints(answer))
        values = list(answer) if is_list else [] if answer is None else [answer]
        if len(values) < len(names):
            names = tuple(name for name in names if not binding.forms[name].optional)
    if len(values) != len(names) or not all(type(v) in _PLAIN or _is_ints(v) for v in values):
        told = type(answer).__name__
        if isinstance(answer, (tuple, list)):
            kinds = dict.fromkeys(type(value).__name__ for value in values)
            told += f" of {len(values)} ({', '.join(kinds)})"
        must = "a plain tensor, an int or a list of ints each"
        if answer is None:
            must += "; one that is a parameter instead is a buffer to write to"
        elif 0 < len(values) < len(names):
            must += f"; to judge only some of them, return them by name: {{{names[0]!r}: …}}"
        raise KernelRaised(f"returned {told}, must be {', '.join(names)}: {must}")
    for name in names:
        for option, value in binding.forms[name].settles.items():
            held = tuple(binding.domain.among(option, (value,)))
            if value not in held:
                told = f"returned {name}, which has no form but that of {option} = {value}"
                raise KernelRaised(f"{told}; the domain promises {option} = {held}")
    return dict(zip(names, values, strict=True))


def returns_another(answer: Any, outputs: Iterable[Buffer]) -> bool:
    """Return whether a function returned a tensor that is none of these."""
    if answer is None:
        return False
    values = dict.values(answer) if isinstance(answer, dict) else answer
    held = [buffer.tensor.data_ptr() for buffer in outputs if buffer.tensor is not None]
    found = values if isinstance(values, (tuple, list, ValuesView)) else [values]
    return any(isinstance(value, torch.Tensor) and value.data_ptr() not in held for value in found)


def with_returned(
    seen: Observation,
    returned: Mapping[str, Returned],
    binding: Binding,
    case: Case,
    allocated: FencedAllocations,
) -> Observation:
    """Return an observed call with the outputs that the function returned."""
    forms = {name: binding.forms[name] for name in returned}
    tensors = {name: value for name, value in returned.items() if isinstance(value, torch.Tensor)}
    dtypes = {name: value.dtype for name, value in tensors.items()}
    promised = {name: torch_dtype(forms[name].dtype_for(case)) for name in dtypes}
    shapes = {name: accepted_shapes(form, case) for name, form in forms.items() if not form.is_rows}
    words, before, cut = dict(seen.outputs), dict(seen.before), dict[str, int]()
    for name, value in returned.items():
        found = _words_returned(value, is_rows=forms[name].is_rows)
        if forms[name].is_list and (missing := _num_missing(found, shape_of(forms[name], case))):
            cut[name] = len(found)  # as if the rest had not been written
            found = np.append(found, poison_words(seen.poison, np.empty(missing, dtype=found.dtype)))
        as_promised = found.shape in shapes.get(name, ())
        words[name] = found.reshape(-1) if as_promised else found
        before[name] = poison_words(seen.poison, words[name])
    return replace(
        seen,
        outputs=words,
        before=before,
        opaque=frozenset(n for n in returned if n not in tensors or not allocated.made(tensors[n])),
        dtypes={name: _dtype_name(dtype) for name, dtype in dtypes.items()},
        mistyped={name: _dtype_name(must) for name, must in promised.items() if must != dtypes[name]},
        shapes=shapes,
        cut=cut,
    )


def _num_missing(found: Words, shape: tuple[int, ...]) -> int:
    """Return how many elements a list has fewer than its room."""
    return max(shape[0] - len(found), 0) if found.ndim == len(shape) == 1 else 0


def _named_in(answer: dict[Any, Any], names: tuple[str, ...], given: tuple[str, ...]) -> tuple[str, ...]:
    """Return the outputs that a dict names. Raises ``KernelRaised`` for another name or none."""
    unknown = [key for key in answer if key not in (*names, *given)]
    found = tuple(name for name in names if name in answer)
    if unknown or not (found or given):
        told = f"with {unknown[0]!r}" if unknown else "without an output"
        raise KernelRaised(f"returned a dict {told}, must name outputs only: {', '.join(names)}")
    return found


def _is_ints(value: Any) -> bool:
    return type(value) is list and all(type(number) is int for number in value)


def _words_returned(value: Returned, *, is_rows: bool) -> Words:
    """Return the elements of a tensor or of a list; a number, of the host or of a tensor, is one element."""
    if isinstance(value, torch.Tensor):
        return words_of(value if value.ndim else value[None], is_rows=is_rows)
    return np.array(value if isinstance(value, list) else [value], dtype=np.int64)


def _dtype_name(dtype: torch.dtype) -> str:
    """Return the name of a dtype as this suite writes it."""
    return str(dtype).removeprefix("torch.")

"""Elements of an output as items of its axis, either live or padding."""

from collections.abc import Mapping
from dataclasses import replace
from math import prod

import numpy as np
import numpy.typing as npt

from cumae.oracle import Case
from cumae.properties.cases.domain import Domain
from cumae.properties.dialects import Output
from cumae.properties.operations.axes import Extent, axis_named
from cumae.properties.operations.expected import FREE, KEEP, Expected
from cumae.properties.operations.outputs import shape_of


def elements_each(output: Output, case: Case) -> int:
    """Return how many elements, or rows, of an output belong to one item of its axis."""
    shape = shape_of(output, case)
    if output.is_rows:
        return prod(shape[1:-1])
    entries = prod(shape[1:]) if len(shape) > 1 else axis_named(output.axis).entries(case)
    return output.per_item * entries


def extent_of(output: Output, case: Case, length: int) -> Extent | None:
    """Return how many elements of an output of this length are live, and how many with padding.

    None if the case does not determine it. The number of chunks is the oracle's.
    """
    axis = axis_named(output.axis)
    if axis.extent is None:
        return None
    if axis.in_chunks:
        return Extent(length, length)
    each = axis.entries(case) * output.per_item
    return Extent(*(count * each for count in axis.extent(case)))


def is_padding(output: Output, case: Case, length: int) -> npt.NDArray[np.bool_]:
    """Return which elements of an output belong to no live token or request.

    No element of a persistent buffer is padding: the operation defines its end.
    """
    axis, each = axis_named(output.axis), np.arange(length)
    if output.starts is not None or axis.extent is None:
        return each < 0
    num_live, num_padded = axis.extent(case)
    if not axis.in_chunks:
        return each >= num_live * elements_each(output, case)
    return each % max(num_padded, 1) >= num_live if num_padded and length % num_padded == 0 else each < 0


def as_promised(
    outputs: Mapping[str, Output], domain: Domain, case: Case, expected: dict[str, Expected]
) -> dict[str, Expected]:
    """Return the required content where a domain promises less of padding, or of what is nobody's."""
    if domain.padding in ("written", "none") and domain.keeps:
        return expected
    found = {}
    for name, want in expected.items():
        state = want.state
        if domain.padding in ("untouched", "any"):
            padding = is_padding(outputs[name], case, len(state))
            state = np.where(padding, KEEP if domain.padding == "untouched" else FREE, state)
        if not domain.keeps:
            state = np.where(_is_nobodys(outputs[name], domain, case, state), FREE, state)
        found[name] = replace(want, state=state.astype(want.state.dtype))
    return found


def _is_nobodys(
    output: Output, domain: Domain, case: Case, state: npt.NDArray[np.uint8]
) -> npt.NDArray[np.bool_]:
    """Return which elements have no value: of a cache those in reserved blocks, of what else is kept none."""
    kept = np.asarray(state == KEEP)
    if not output.is_in_place:
        return kept
    each = len(state) // max(case.num_cache_blocks, 1) if output.is_rows else 0
    return kept & (np.arange(len(state)) < each * domain.reserved_blocks)


def without_padding(case: Case) -> Case:
    """Return the case with only its live tokens and requests."""
    layout = replace(case.layout, num_padding_tokens=0, num_padding_requests=0, num_padding_slots=0)
    return replace(case, layout=layout)

"""Elements of an output as items on its axis, of live requests or of padding."""

from dataclasses import replace
from math import prod

import numpy as np
import numpy.typing as npt

from cumae.oracle import Case
from cumae.properties.operations import KEEP, Expected
from cumae.properties.operations.binding import Binding


def axis_of(binding: Binding, name: str) -> str:
    """Return what an index into an output counts."""
    theirs = binding.dialect.outputs_of(binding.operation.name).get(name)
    return theirs.axis if theirs else next(o.axis for o in binding.operation.outputs if o.name == name)


def elements_each(binding: Binding, name: str, case: Case) -> int:
    """Return how many elements, or rows, of an output one item on its axis has."""
    theirs, own = binding.named_output(name)
    if binding.is_rows(name):
        return 1
    if theirs is not None:
        return theirs.per_item * (theirs.width(case) if theirs.width else 1)
    shape = own.shape(case) if own else ()
    if len(shape) > 1:
        return prod(shape[1:])
    sizes = {"selected_key": case.options.selection.topk, "expert_of_token": case.options.router.top_k}
    return sizes.get(axis_of(binding, name), 1)


def is_padding(binding: Binding, name: str, case: Case, length: int) -> npt.NDArray[np.bool_]:
    """Return which elements of an output belong to no live token or request.

    None of a buffer that outlives the step: what becomes of its end is told by the operation.
    """
    axis, (_, own) = axis_of(binding, name), binding.named_output(name)
    requests, tokens = len(case.batch.requests), case.batch.num_tokens
    live = {
        "token": tokens,
        "slot": tokens,
        "selected_key": tokens,
        "expert_of_token": tokens,
        "request": requests,
        "request_start": requests + 1,
        "token_start": tokens + 1,
    }
    each = np.arange(length)
    if own is not None and own.starts is not None:
        return each < 0
    if axis in ("chunk_request", "chunk_start"):
        more = axis == "chunk_start"
        width = case.num_requests_padded + more
        return each % max(width, 1) >= requests + more if width and length % width == 0 else each < 0
    return each >= live[axis] * elements_each(binding, name, case) if axis in live else each < 0


def left_untouched(binding: Binding, case: Case, expected: dict[str, Expected]) -> dict[str, Expected]:
    """Return what outputs must hold where a function leaves their padding as it was."""
    found = {}
    for name, want in expected.items():
        padding = is_padding(binding, name, case, len(want.state))
        found[name] = replace(want, state=np.where(padding, KEEP, want.state).astype(want.state.dtype))
    return found


def without_padding(case: Case) -> Case:
    """Return the case with its live tokens and requests only."""
    layout = replace(case.layout, num_padding_tokens=0, num_padding_requests=0, num_padding_slots=0)
    return replace(case, layout=layout)

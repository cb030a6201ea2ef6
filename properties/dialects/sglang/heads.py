"""Keys and values of several heads in SGLang's pool: a row for each slot, slot 0 is the dump's."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np

from cumae.oracle import ANY, UNTOUCHED, Case, Inputs, PageWrite, page_units
from cumae.properties.dialects.dialect import Input
from cumae.properties.dialects.heads import (
    new_keys,
    new_values,
    page_dtype,
    page_shape,
    pieces_of,
    plane_shape,
    two_caches,
)
from cumae.properties.dialects.held import IntArray, Ints, Rows, ints, rows
from cumae.properties.dialects.output import Output
from cumae.properties.dialects.pages_read import gathered_from_plane, held_pages, held_plane, in_plane
from cumae.properties.dialects.sglang.step import num_rows

Kind = Literal["key", "value"]


def _pool_shape(kind: Kind, case: Case) -> tuple[int, int, int]:
    """Return slots, units of a slot, and elements of a unit; the page of the dump slot is always there."""
    blocks, units, items = plane_shape(kind, case)
    return max(blocks, 1) * case.batch.block_size, units // case.batch.block_size, items


def _dense(shape: tuple[int, int, int]) -> tuple[int, int, int]:
    return shape[1] * shape[2], shape[2], 1


def _garbage(shape: tuple[int, int, int], case: Case) -> Rows:
    nothing = np.zeros((0, 2), dtype=np.int64)
    return rows(shape, page_dtype(case), _dense(shape), nothing, case.layout.garbage, seed=4)


def _pool_before(kind: Kind, inputs: Inputs) -> Rows:
    return _garbage(_pool_shape(kind, inputs.case), inputs.case)


def _pool(kind: Kind, inputs: Inputs) -> Rows:
    """Return the keys or values that earlier steps and this one wrote to the pool."""
    plane, shape = held_plane(kind, inputs), _pool_shape(kind, inputs.case)
    live = plane.live.copy()
    places = live[:, 0] * plane.shape[1] + live[:, 1]
    live[:, 0], live[:, 1] = places // shape[1], places % shape[1]
    return replace(plane, shape=shape, strides=_dense(shape), live=live)


def _written(name: str, kind: Kind, plane: Output) -> Output:
    """Return the pool's form of a cache: padding writes something to the dump slot."""

    def expect(answer: Any, inputs: Inputs) -> list[Any]:
        dump = _first_page(inputs.case, (kind,))
        return dump + plane.values(answer, inputs)[len(dump) :]

    shape, before = partial(_pool_shape, kind), partial(_pool_before, kind)
    return replace(plane, name=name, shape=shape, before=before, expect=expect)


def _first_page(case: Case, kinds: Sequence[Kind]) -> list[Any]:
    """Return what the page of the dump slot holds after a step."""
    heads = case.options.heads
    sizes = (heads.num_heads, heads.key_units, heads.value_units, heads.group_items)
    units = page_units(heads.page_order, case.batch.block_size, *sizes)
    return [UNTOUCHED if token else ANY for kind, token, _, _ in units if kind in kinds]


def _index_shape(case: Case) -> tuple[int, int, int]:
    blocks, units, items = page_shape(case)
    return max(blocks, 1), units, items


def _index_before(inputs: Inputs) -> Rows:
    return _garbage(_index_shape(inputs.case), inputs.case)


def _index(inputs: Inputs) -> Rows:
    shape = _index_shape(inputs.case)
    return replace(held_pages(inputs), shape=shape, strides=_dense(shape))


def _expect_index(answer: PageWrite, inputs: Inputs) -> list[Any]:
    dump = _first_page(inputs.case, ("key", "value"))
    return dump + answer.pages[len(dump) :]


def _read(kind: Kind, name: str, pool: str) -> Output:
    """Return gathered keys or values, whose sources are places of the pool."""
    return gathered_from_plane(kind, name, pool, partial(_in_pool, kind))


def _in_pool(kind: Kind, case: Case, sources: IntArray) -> IntArray:
    """Return units of pages [rows, 2] by their places in the pool."""
    pages, units = in_plane(case, sources).T
    places = pages * plane_shape(kind, case)[1] + units
    return np.stack(np.divmod(places, _pool_shape(kind, case)[1]), axis=1)


def _rows_of_step(held: Rows, case: Case) -> Rows:
    return replace(held, shape=(num_rows(case), *held.shape[1:]))


def _loc(inputs: Inputs) -> Ints:
    """Return the slot of each row of the step, 0 for padding."""
    case = inputs.case
    slots = [max(slot, 0) for slot in inputs["slot_mapping"][: case.batch.num_tokens]]
    padding = num_rows(case) - len(slots)
    return ints([*slots, *[0] * padding], "int64", case.layout.garbage)


_HEADS = ("head_format", "num_heads", "head_dims")
_KEY_CACHE, _VALUE_CACHE = two_caches("cache_k", "cache_v")
HEAD_INPUTS = {
    "cache_k": Input(lambda inputs: _rows_of_step(new_keys(inputs), inputs.case), _HEADS),
    "cache_v": Input(lambda inputs: _rows_of_step(new_values(inputs), inputs.case), _HEADS),
    "loc": Input(_loc),
    "head_num": Input(lambda inputs: inputs["num_heads"], ("num_heads",)),
    "k_buffer": Input(partial(_pool, "key"), _HEADS),
    "v_buffer": Input(partial(_pool, "value"), _HEADS),
    "index_k_with_scale_buffer": Input(_index, _HEADS),
}
HEAD_OUTPUTS = {
    "page_write": (
        _written("k_buffer", "key", _KEY_CACHE),
        _written("v_buffer", "value", _VALUE_CACHE),
        Output(
            "index_k_with_scale_buffer",
            follows="pages",
            shape=_index_shape,
            before=_index_before,
            expect=_expect_index,
            pieces=pieces_of("cache_k", "cache_v"),
            is_captured=False,
        ),
    ),
    "page_read": (_read("key", "key_out", "k_buffer"), _read("value", "value_out", "v_buffer")),
}

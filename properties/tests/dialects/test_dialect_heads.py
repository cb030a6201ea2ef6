"""Keys and values of several heads with the names of engines, worked out by hand."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import pytest
import torch

import cumae
from cumae.fixtures.correct import page_rows
from cumae.oracle import ANY, UNTOUCHED, Batch, Case, Inputs, Layout, Options, Request
from cumae.properties.dialects import FLASHINFER, SGLANG, VLLM, Dialect, Floats, Ints, Rows
from cumae.properties.operations import OPERATIONS
from cumae.properties.operations.binding import binding_of
from cumae.properties.operations.outputs import outputs_of, shape_of

Tensor = torch.Tensor
# Sequences of 5, 0, 7 and 3 tokens; new ones at slots 23 and 8, none, 14, and 36 to 38. Two padding tokens.
REQUESTS = (Request(3, 2, (5, 2)), Request(0, 0), Request(6, 1, (7, 3), "decode"), Request(0, 3, (9,)))
PADDED = Layout(num_padding_tokens=2, num_padding_requests=1, key_slack=1)
BY_HEAD = Case(Batch(REQUESTS, 4), PADDED, Options.of(num_heads=2, page_order="HND", window=2))
FP8 = Case(
    Batch(REQUESTS, 4),
    PADDED,
    Options.of(head_format="fp8", key_scale_thousandths=125, value_scale_thousandths=3),
)
BY_TOKEN = Case(
    Batch(REQUESTS, 4), Layout(num_padding_tokens=2, num_padding_requests=1), Options.of(num_heads=2)
)
INDEXER = Case(
    Batch((Request(0, 1, (1,)), Request(1, 1, (2,), "decode")), 2),
    options=Options.of(head_format="bytes", head_dim=128, value_dim=4),
)
# Blocks and tokens of the windows of BY_HEAD; in a page the second head stands 4 places behind.
READ_BY_HEAD = [(2, 0), (3, 1), (3, 2), (5, 3), (9, 1), (9, 2)]
POOL_SLOTS = [8, 12, 13, 14, 20, 21, 22, 23, 28, 29, 30, 31, 36, 37, 38]
READ_SLOTS = [20, 21, 22, 23, 8, 28, 29, 30, 31, 12, 13, 14, 36, 37, 38]
NEW_SLOTS = [23, 8, 14, 36, 37, 38]


def held(dialect: Dialect, case: Case, name: str) -> Any:
    return dialect.inputs[name].hold(Inputs(case))


def expected(dialect: Dialect, case: Case, operation: str, name: str) -> list[Any]:
    inputs = Inputs(case)
    output = outputs_of(OPERATIONS[operation], dialect)[name]
    values = output.values(inputs.call(OPERATIONS[operation].oracle), inputs)
    assert prod(shape_of(output, case)[:-1]) == len(values)
    place = output.pieces and output.pieces[next(iter(output.pieces))].place
    if not place:
        return values
    return [one if one is UNTOUCHED else (one[0], *place(case, np.array([one[1:]]))[0]) for one in values]


def among(size: int, places: Mapping[int, Any]) -> list[Any]:
    """Return ``size`` units that are not written but at these places."""
    return [places.get(place, UNTOUCHED) for place in range(size)]


def of_heads(kind: str, rows: Sequence[int]) -> list[tuple[Any, ...]]:
    return [(kind, row, head, 0) for row in rows for head in (0, 1)]


class TestVllm:
    """``cp_mha_gather_cache`` of v1/attention/backends/rocm_aiter_fa.py, 0.33.0."""

    @pytest.mark.parametrize(
        ("name", "values"),
        [
            ("cu_seqlens_kv", [0, 2, 2, 4, 6, 6]),
            ("token_to_batch", [0, 0, 2, 2, 3, 3, -1]),
            ("seq_starts", [3, 0, 5, 1, 0]),
        ],
    )
    def test_what_is_gathered_of_each_request(self, name: str, values: list[int]) -> None:
        found = held(VLLM, BY_HEAD, name)
        assert isinstance(found, Ints)
        assert (found.dtype, found.values.tolist()) == ("int32", values)

    def test_without_a_window_everything_is_gathered(self) -> None:
        assert held(VLLM, FP8, "seq_starts").values.tolist() == [0] * 5
        assert held(VLLM, FP8, "cu_seqlens_kv").values.tolist() == [0, 5, 5, 12, 15, 15]
        assert held(VLLM, FP8, "total_tokens") == 15

    @pytest.mark.parametrize(("slack", "total"), [(1, 6), (0, 6), (-2, 4), (-9, 0)])
    def test_no_more_tokens_are_gathered_than_the_buffers_have_rows(self, slack: int, total: int) -> None:
        case = Case(BY_HEAD.batch, Layout(key_slack=slack), BY_HEAD.options)
        assert held(VLLM, case, "total_tokens") == total

    @pytest.mark.parametrize("name", ["key_cache", "value_cache"])
    def test_a_cache_holds_its_half_of_each_page(self, name: str) -> None:
        found = held(VLLM, BY_HEAD, name)
        assert isinstance(found, Rows)
        assert (found.shape, found.dtype, found.strides) == ((10, 8, 16), "bf16", (128, 16, 1))
        read = [(block, token + 4 * head) for block, token in READ_BY_HEAD for head in (0, 1)]
        assert [tuple(place) for place in found.live.tolist()] == read

    def test_both_caches_have_the_content_of_the_pages(self) -> None:
        whole = held(VLLM, BY_HEAD, "kv_cache")
        assert whole.shape == (10, 16, 16)
        content = {tuple(place): row for place, row in zip(whole.live.tolist(), whole.content, strict=True)}
        for name, first in (("key_cache", 0), ("value_cache", 8)):
            half = held(VLLM, BY_HEAD, name)
            for (block, place), row in zip(half.live.tolist(), half.content, strict=True):
                assert np.array_equal(content.pop((block, first + place)), row)
        assert not content

    @pytest.mark.parametrize("name", ["key", "value"])
    def test_sources_are_places_of_one_cache(self, name: str) -> None:
        tokens = [(5, 3), (2, 0), (3, 1), (3, 2), (9, 1), (9, 2)]
        sources = [("page", block, 4 * head + token) for block, token in tokens for head in (0, 1)]
        assert expected(VLLM, BY_HEAD, "page_read", name) == [*sources, UNTOUCHED, UNTOUCHED]

    def test_scales_and_format(self) -> None:
        scales = [held(VLLM, FP8, name) for name in ("k_scale", "v_scale")]
        assert all(isinstance(scale, Floats) for scale in scales)
        assert [scale.values.tolist() for scale in scales] == [[0.125], [np.float32(0.003)]]
        assert (held(VLLM, FP8, "kv_cache_dtype"), held(VLLM, BY_HEAD, "num_kv_heads")) == ("fp8", 2)
        assert outputs_of(OPERATIONS["page_read"], VLLM)["key"].dtype_for(FP8) == "bf16"


class TestSglang:
    """``MHATokenToKVPool`` of srt/mem_cache/memory_pool.py, kernels/ops/kvcache, 0.5.23."""

    def test_the_rows_of_a_step(self) -> None:
        assert held(SGLANG, BY_TOKEN, "loc").values.tolist() == [*NEW_SLOTS, 0, 0]
        assert held(SGLANG, BY_TOKEN, "head_num") == 2
        for name in ("cache_k", "cache_v"):
            found = held(SGLANG, BY_TOKEN, name)
            assert (found.shape, found.dtype) == ((8, 2, 16), "bf16")
            assert sorted({row for row, _ in found.live.tolist()}) == list(range(6))

    @pytest.mark.parametrize("name", ["k_buffer", "v_buffer"])
    def test_the_pool_has_a_row_for_each_slot(self, name: str) -> None:
        found = held(SGLANG, BY_TOKEN, name)
        assert (found.shape, found.strides) == ((40, 2, 16), (32, 16, 1))
        assert found.live.tolist() == [[slot, head] for slot in POOL_SLOTS for head in (0, 1)]

    @pytest.mark.parametrize(("name", "kind"), [("k_buffer", "key"), ("v_buffer", "value")])
    def test_padding_may_write_to_the_dump_slot(self, name: str, kind: str) -> None:
        sources = iter(of_heads(kind, range(6)))
        places = {2 * slot + head: next(sources) for slot in NEW_SLOTS for head in (0, 1)}
        found = expected(SGLANG, BY_TOKEN, "page_write", name)
        assert found == among(80, {0: ANY, 1: ANY, **places})

    @pytest.mark.parametrize("name", ["key_out", "value_out"])
    def test_keys_are_gathered_by_request(self, name: str) -> None:
        found = expected(SGLANG, BY_TOKEN, "page_read", name)
        assert found == [("page", slot, head) for slot in READ_SLOTS for head in (0, 1)]

    def test_the_page_of_the_dump_slot_is_always_there(self) -> None:
        nobody = Case(Batch((), 4), Layout(num_padding_tokens=1))
        for name in ("k_buffer", "v_buffer"):
            assert expected(SGLANG, nobody, "page_write", name) == [ANY, *[UNTOUCHED] * 3]
        pages = expected(SGLANG, nobody, "page_write", "index_k_with_scale_buffer")
        assert pages == [ANY, *[UNTOUCHED] * 3] * 2

    def test_the_indexer_has_its_scales_behind_the_keys_of_a_page(self) -> None:
        pages = held(SGLANG, INDEXER, "index_k_with_scale_buffer")
        assert (pages.shape, pages.dtype, pages.strides) == ((3, 66, 4), "uint8", (264, 4, 1))
        # Read: slots 2, 4 and 5, in each page 32 units of a key for each token, then a unit for each scale.
        places = [(1, 0, 0), (2, 0, 0), (2, 0, 1)]
        units = {(b, 32 * t + unit) for b, _, t in places for unit in range(32)}
        units |= {(b, 64 + t) for b, _, t in places}
        assert {tuple(place) for place in pages.live.tolist()} == units
        # Written: slots 2 and 5.
        first_units = {66: 0, 2 * 66 + 32: 1}
        keys = {at + unit: ("key", row, 0, unit) for at, row in first_units.items() for unit in range(32)}
        scales = {66 + 64: ("value", 0, 0, 0), 2 * 66 + 65: ("value", 1, 0, 0)}
        dump = dict.fromkeys([*range(32), 64], ANY)
        found = expected(SGLANG, INDEXER, "page_write", "index_k_with_scale_buffer")
        assert found == among(198, {**dump, **keys, **scales})


class TestFlashinfer:
    """``append_paged_kv_cache`` of flashinfer/page.py, 0.7.2."""

    def test_what_is_appended(self) -> None:
        for name in ("append_key", "append_value"):
            assert held(FLASHINFER, BY_HEAD, name).shape == (8, 2, 16)
        assert held(FLASHINFER, BY_HEAD, "kv_layout") == "HND"

    def test_a_page_holds_its_keys_and_then_its_values(self) -> None:
        keys, values = {}, {}
        for row, slot in enumerate(NEW_SLOTS):
            for head in (0, 1):
                place = slot // 4 * 8 + 4 * head + slot % 4
                keys[place], values[place] = ("key", row, head, 0), ("value", row, head, 0)
        assert expected(FLASHINFER, BY_HEAD, "page_write", "paged_k_cache") == among(80, keys)
        assert expected(FLASHINFER, BY_HEAD, "page_write", "paged_v_cache") == among(80, values)
        pages = {place + place // 8 * 8: source for place, source in keys.items()}
        pages |= {place + (place // 8 + 1) * 8: source for place, source in values.items()}
        assert expected(FLASHINFER, BY_HEAD, "page_write", "paged_kv_cache") == among(160, pages)

    def test_it_has_two_layouts(self) -> None:
        binding = binding_of(page_rows.append_paged_kv_cache, "page_write", "flashinfer")
        assert binding.domain.values["page_order"] == ("NHD", "HND")
        packed = cumae.Domain().having(page_order=("packed",))
        rule = "must hold one of dialect flashinfer: NHD, HND"
        with pytest.raises(ValueError, match=rf"^page_order = .*, {rule}"):
            binding_of(page_rows.append_paged_kv_cache, "page_write", "flashinfer", packed)

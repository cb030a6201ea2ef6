"""Windows, compressed states and rings in the names of vLLM 0.33.0 and SGLang 0.5.23, worked by hand."""

from math import prod
from typing import Any

import pytest
import torch

from cumae.oracle import ANY, Batch, Case, Inputs, Layout, Options, Request
from cumae.properties.checks import CHECKS, Trial
from cumae.properties.dialects import SGLANG, VLLM, Dialect, Ints
from cumae.properties.dialects.sglang.cache_groups import GROUP_INPUTS
from cumae.properties.operations import OPERATIONS
from cumae.properties.operations.binding import binding_of
from cumae.properties.operations.outputs import outputs_of, shape_of
from cumae.properties.running.device import prepare

# Two tokens at positions 3 and 4, an idle request, a decode at position 6, and two tokens of padding.
STEP = Case(
    Batch((Request(3, 2, (5, 2)), Request(0, 0), Request(6, 1, (7, 3), "decode")), 4),
    Layout(num_padding_tokens=2, num_padding_requests=1, num_padding_slots=1),
    Options.of(window=3, min_window_columns=2, ring_capacity=3),
)
# Pages of 4 tokens are pages of one state of four. Positions 2 and 3 of the first request, 7 of the second.
PAGES = Case(Batch((Request(2, 2, (5,)), Request(7, 1, (7, 3), "decode")), 4), Layout(num_padding_tokens=1))
GROUPS = Case(
    Batch((Request(2, 4, (5, 2)), Request(3, 1, (7,), "decode")), 4),
    Layout(num_padding_tokens=1),
    Options.of(compress_ratio=2),
)


def expected(case: Case, dialect: Dialect, operation: str, name: str) -> list[Any]:
    inputs = Inputs(case)
    output = outputs_of(OPERATIONS[operation], dialect)[name]
    values = output.values(inputs.call(OPERATIONS[operation].oracle), inputs)
    assert prod(shape_of(output, case)) == len(values)
    return values


def shown(case: Case, dialect: Dialect, name: str) -> Any:
    held = dialect.inputs[name].hold(Inputs(case))
    return held.values.tolist() if isinstance(held, Ints) else held


class TestVllm:
    """`v1/attention/backends/mla/sparse_swa.py`, `compressor_utils.py` and `indexer.py` there."""

    @pytest.mark.parametrize(
        ("case", "operation", "name", "values"),
        [
            (
                STEP,
                "window_slots",
                "swa_indices",
                [21, 22, 23, 22, 23, 8, 12, 13, 14, -1, -1, -1, -1, -1, -1],
            ),
            (STEP, "window_slots", "swa_lens", [3, 3, 3, 0, 0]),
            (STEP, "ring_slots", "slot_mapping", [15, 16, 21, -1, -1, -1]),
            (GROUPS, "compressed_slots", "compressed_slot_mapping", [-1, 21, -1, 22, 29, -1]),
        ],
    )
    def test_outputs(self, case: Case, operation: str, name: str, values: list[int]) -> None:
        assert expected(case, VLLM, operation, name) == values

    def test_inputs(self) -> None:
        wanted = {
            "token_to_req_indices": [0, 0, 2, 0, 0],
            "is_valid_token": [1, 1, 1, 0, 0],
            "replay_start": [0, 0, 0, 0],
            "window_size": 3,
            "index_width": 3,
            "capacity": 3,
        }
        assert {name: shown(STEP, VLLM, name) for name in wanted} == wanted


class TestSglang:
    """`kernels/ops/attention/dsv4/attn_metadata_kernels.py` and `metadata_kernel.py` beside it."""

    @pytest.mark.parametrize(
        ("case", "operation", "name", "values"),
        [
            # Blocks up to 7 are a pool of 32 slots, and the window's pool counts from its end.
            (
                STEP,
                "window_slots",
                "swa_page_indices",
                [9, 10, 11, -1, 24, 9, 10, -1, 18, 19, 20, -1, *[ANY] * 8],
            ),
            (STEP, "window_slots", "swa_topk_lengths", [3, 3, 3, ANY, ANY]),
            (PAGES, "compressed_slots", "c1_out_loc", [22, 23, 15, ANY]),
            (PAGES, "compressed_slots", "c2_out_loc", [-1, 11, 7, ANY]),
            (PAGES, "compressed_slots", "c4_out_loc", [0, 5, 3, ANY]),
            (PAGES, "compressed_slots", "c128_out_loc", [0, 0, 0, ANY]),
        ],
    )
    def test_outputs(self, case: Case, operation: str, name: str, values: list[Any]) -> None:
        assert expected(case, SGLANG, operation, name) == values

    def test_inputs(self) -> None:
        wanted = {
            "seq_lens_casual": [4, 5, 7, 1, 1],
            "req_pool_indices_repeated": [2, 2, 1, 1, 1],
            "raw_out_loc": [23, 8, 14, 0, 0],
            "swa_window": 3,
            "page_index_aligned_size": 2,
        }
        assert {name: shown(STEP, SGLANG, name) for name in wanted} == wanted
        assert {*wanted, "full_to_swa_mapping"} == set(GROUP_INPUTS)
        assert shown(STEP, SGLANG, "full_to_swa_mapping") == [*range(32, 0, -1), -1]


def test_a_map_of_all_slots_is_not_made_for_slots_beyond_31_bits() -> None:
    def mapped(
        raw_out_loc: torch.Tensor, full_to_swa_mapping: torch.Tensor, c1_out_loc: torch.Tensor
    ) -> None:
        c1_out_loc.copy_(torch.where(full_to_swa_mapping[raw_out_loc] >= 0, raw_out_loc, -1))

    asked = Trial(binding_of(mapped, "compressed_slots", dialect="sglang"), PAGES, prepare("auto"))
    assert CHECKS["survives_large_ids"](asked) is None
    assert asked.note.startswith("not tried with slots beyond 2^31: full_to_swa_mapping")

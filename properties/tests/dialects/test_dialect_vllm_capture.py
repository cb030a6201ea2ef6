"""Steps of vLLM, from their tensors back to cases."""

import re
from typing import Any

import numpy as np
import pytest

from cumae.properties.cases.domain import Domain
from cumae.properties.cases.seeded import seeded_case
from cumae.properties.dialects import VLLM
from cumae.properties.dialects.dump import case_from_tensors
from cumae.properties.tests.helpers.dumped import dumped, said

CAPTURED = (
    "query_start_loc",
    "block_table",
    "block_size",
    "kernel_block_size",
    "num_reqs",
    "num_tokens_padded",
    "dcp_world_size",
    "dcp_rank",
    "cp_kv_cache_interleave_size",
)
VARIED = ("world", "rank", "interleave", "kernel_block_size", "num_padding_slots")


@pytest.mark.parametrize("part", range(4))
def test_tensors_of_a_case_give_it_back(part: int) -> None:
    for number in range(50 * part, 50 * part + 50):
        case = seeded_case(number, Domain(reserved_blocks=1), VARIED)
        lens = ("num_computed_tokens", "seq_lens")[number % 2]
        names = (*CAPTURED, lens)
        flags = [request.phase == "prefill" for request in case.batch.requests]
        back = case_from_tensors("vllm", **dumped(VLLM, case, names, number), is_prefill=flags)
        assert said(back) == said(case)
        assert (back.batch.block_size, back.batch.world) == (case.batch.block_size, case.batch.world)
        assert (back.options.parallel.rank, back.kernel_block_size) == (
            case.options.parallel.rank,
            case.kernel_block_size,
        )
        tokens = ("query_start_loc", "seq_lens", "positions")
        assert dumped(VLLM, back, tokens, 2) == dumped(VLLM, case, tokens, 2)


GOOD: dict[str, Any] = {
    "query_start_loc": [0, 1, 4],
    "num_computed_tokens": [6, 3],
    "block_table": [[7, 3], [5, 2]],
    "block_size": 4,
    "num_prefills": 1,
}


def test_the_last_requests_are_the_prefills() -> None:
    assert said(case_from_tensors("vllm", **GOOD)) == [(6, 1, (7, 3), "decode"), (3, 3, (5, 2), "prefill")]


def test_short_queries_are_decodes_up_to_a_threshold() -> None:
    tensors = GOOD | {"num_prefills": None}
    phases = [
        [request.phase for request in case_from_tensors("vllm", **tensors, decode_threshold=n).batch.requests]
        for n in (0, 1, 3)
    ]
    assert phases == [["prefill", "prefill"], ["decode", "prefill"], ["decode", "decode"]]


def test_a_fresh_prompt_within_the_threshold_is_a_prefill() -> None:
    tensors = GOOD | {"num_prefills": None, "num_computed_tokens": [0, 3], "decode_threshold": 8}
    assert case_from_tensors("vllm", **tensors).batch.requests[0].phase == "prefill"


def test_the_null_block_is_no_block() -> None:
    tensors = GOOD | {"block_table": np.array([[0, 3], [5, 2]], dtype=np.int32)}
    assert case_from_tensors("vllm", **tensors).batch.requests[0].block_ids == (-1, 3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"block_table": None}, "block_table = None, must be given"),
        (
            {"num_computed_tokens": None},
            "num_computed_tokens or seq_lens = None, must be given: every step of vllm",
        ),
        ({"num_prefills": None}, "is_prefill, num_prefills or decode_threshold = None, must be given"),
        ({"is_prefill": [0, 1]}, "phase = ['is_prefill', 'num_prefills'], must be given by one of"),
        ({"slot_mapping": [1]}, "tensor = 'slot_mapping', must be a tensor that vllm reads"),
        ({"query_start_loc": [0, 4, 1]}, "query_start_loc[2] = 1, must be >= 4, never fall"),
        ({"query_start_loc": [1, 2, 4]}, "query_start_loc[0] = 1, must be 0"),
        ({"query_start_loc": [0.0, 1.0, 4.0]}, "query_start_loc[0] = 0.0, must be an integer"),
        ({"num_computed_tokens": [6]}, "num_computed_tokens: number = 1, must be 2"),
        ({"num_computed_tokens": [6, -3]}, "num_computed_tokens[1] = -3, must be >= 0"),
        ({"seq_lens": [7, 2]}, "seq_lens[1] = 2, must be >= 3, its query length"),
        ({"seq_lens": [9, 6]}, "seq_lens[0] = 9, must be 6 + 1 = num_computed_tokens + query length"),
        ({"block_table": [[7], [5]]}, "block_table[0]: number of columns = 1, must be >= 2"),
        ({"block_table": [[7, 3]]}, "block_table: number of rows = 1, must be >= 2"),
        ({"block_table": [[7, 3], [5]]}, "block_table[1]: number = 1, must be 2"),
        ({"block_size": 0}, "block_size = 0, must be >= 1"),
        ({"kernel_block_size": 3}, "kernel_block_size = 3, must divide block_size = 4"),
        ({"num_reqs": 3}, "num_reqs = 3, must be <= 2"),
        ({"num_reqs": 1}, "query_start_loc[2] = 4, must be 1: padding"),
        ({"num_tokens_padded": 2}, "num_tokens_padded = 2, must be >= 4"),
        ({"num_prefills": 3}, "num_prefills = 3, must be <= 2"),
        ({"num_prefills": 0, "num_computed_tokens": [0, 3]}, "requests[0].context_len = 0, must be >= 1"),
        (
            {"kernel_block_size": 2, "block_table": [[4, 6, 2, 3], [8, 9, 10, 11]]},
            "block_table[0][0:2] = [4, 6], must be 2 kernel blocks in a row",
        ),
    ],
)
def test_tensors_that_are_no_step_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        case_from_tensors("vllm", **(GOOD | change))


def test_a_dialect_that_reads_nothing_back_is_refused() -> None:
    with pytest.raises(ValueError, match=re.escape("dialect = 'cumae', must be one that reads tensors:")):
        case_from_tensors("cumae", **GOOD)

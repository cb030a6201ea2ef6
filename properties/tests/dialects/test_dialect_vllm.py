"""The dialect of vLLM: what a step is held as and what is expected of it, worked out by hand."""

import re
from itertools import islice
from math import prod
from pathlib import Path
from typing import Any

import pytest

import cumae.properties.dialects
from cumae.fixtures.correct.cache_rows import concat_and_cache_mla
from cumae.oracle import ANY, Batch, Case, Inputs, Layout, Options, Request
from cumae.properties.cases.seeded import seeded_cases
from cumae.properties.dialects import VLLM, Floats, Ints, Rows
from cumae.properties.operations import OPERATIONS
from cumae.properties.operations.binding import binding_of
from cumae.properties.operations.outputs import outputs_of, shape_of

PAGE = Path(cumae.properties.dialects.__file__).parent / "vllm/README.md"
STEP = Case(
    Batch(
        (
            Request(3, 2, (5, 2)),
            Request(0, 0),
            Request(6, 1, (7, 3), "decode"),
            Request(0, 3, (9,)),
        ),
        block_size=4,
    ),
    Layout(
        num_padding_tokens=2,
        num_padding_requests=1,
        num_padding_slots=1,
        num_spare_rows=1,
        num_spare_columns=1,
    ),
)
WINDOWED = Case(STEP.batch, STEP.layout, Options.of(window=2))
PARALLEL = Case(
    Batch((Request(3, 5, (5,)), Request(1, 2, (3,))), 4, 2), options=Options.of(rank=1, interleave=2)
)
COMPRESSED = Case(
    Batch((Request(0, 1, (1,)), Request(0, 1, (2,)), Request(0, 4, (3,))), 4),
    options=Options.of(compress_ratio=2),
)
DEALT = Case(
    Batch((Request(5, 3, (2,)), Request(1, 3, (6,))), 4, 2), options=Options.of(compress_ratio=2, rank=1)
)
HYBRID = Case(Batch((Request(3, 2, (5, 2)),), 4), options=Options.of(kernel_block_size=2))

# 19 rows for two prefills with context are chunks of 8; of the decode's context none is counted.
CHUNKED = Case(
    Batch(
        (
            Request(9, 2, (5, 2, 6)),
            Request(0, 3, (7,)),
            Request(15, 1, (8, 9, 10, 11), "decode"),
            Request(3, 1, (12,)),
        ),
        block_size=4,
    ),
    Layout(num_padding_requests=1, context_slack=4),
    Options.of(chunk_blocks=2, workspace_slack=3),
)
# The three tokens select positions (3, 0) and (4, 3) of request 0, and (1, 0) of request 1.
SELECTING = Case(
    Batch((Request(3, 2, (5, 2)), Request(1, 1, (7,))), 4), Layout(num_padding_tokens=1), Options.of(topk=2)
)
# Of three tokens the second selects a position that no request has, and the last selects none first.
GAPS = Case(Batch((Request(0, 3, (7,)),), 4), options=Options.of(topk=4, select_beyond=True))
# A decode that reads the cache, and two prefills whose keys stand in a workspace, two rows and then one.
GATHERING = Case(
    Batch((Request(2, 1, (5,), "decode"), Request(1, 1, (7,)), Request(0, 1, (2,))), 4),
    Layout(num_padding_tokens=1),
    Options.of(topk=2, prefill_workspace=True),
)
# Two tokens whose experts are all equal, and a row of padding.
ROUTING = Case(
    Batch((Request(0, 2, (5,)),), 4),
    Layout(num_padding_tokens=1),
    Options.of(logits_kind="equal", scaling_thousandths=2500, logits_dtype="bf16"),
)


def shown(case: Case, name: str) -> Any:
    held = VLLM.inputs[name].hold(Inputs(case))
    return held.values.tolist() if isinstance(held, Ints) else held


def expected(case: Case, operation: str, name: str) -> list[Any]:
    inputs = Inputs(case)
    answer = inputs.call(OPERATIONS[operation].oracle)
    output = outputs_of(OPERATIONS[operation], VLLM)[name]
    values = output.values(answer, inputs)
    assert prod(shape_of(output, case)) == len(values)
    return values


@pytest.mark.parametrize(
    ("name", "dtype", "values"),
    [
        ("query_start_loc", "int32", [0, 2, 2, 3, 6, 6]),
        ("query_start_loc_cpu", "int32", [0, 2, 2, 3, 6, 6]),
        ("seq_lens", "int32", [5, 0, 7, 3, 0]),
        ("seq_lens_cpu", "int32", [5, 0, 7, 3, 0]),
        ("num_computed_tokens", "int32", [3, 0, 6, 0, 0]),
        ("num_computed_tokens_cpu", "int32", [3, 0, 6, 0, 0]),
        ("req_id_per_token", "int32", [0, 0, 2, 3, 3, 3, 0, 0]),
        ("positions", "int64", [3, 4, 6, 0, 1, 2, 0, 0]),
        ("is_prefilling", "bool", [1, 1, 0, 1, 0]),
        (
            "block_table",
            "int32",
            [[5, 2, -1], [-1, -1, -1], [7, 3, -1], [9, -1, -1], [0, 0, 0], [-1, -1, -1]],
        ),
        ("prefill_query_start_loc", "int32", [0, 2, 2, 5]),
        ("uncompressed_seq_lens", "int32", [5, 0, 3]),
        ("cu_seq_lens", "int32", [0, 5, 5, 8]),
        ("local_cu_seq_lens", "int32", [0, 5, 5, 8]),
    ],
)
def test_a_step_is_held_as_worked_by_hand(name: str, dtype: str, values: list[Any]) -> None:
    held = VLLM.inputs[name].hold(Inputs(STEP))
    assert isinstance(held, Ints)
    assert (held.dtype, held.values.tolist()) == (dtype, values)


def test_the_host_numbers_are_those_of_the_step() -> None:
    numbers = {
        "block_size": 4,
        "kernel_block_size": 4,
        "num_tokens": 6,
        "num_tokens_padded": 8,
        "num_actual_tokens": 8,
        "num_reqs": 4,
        "num_reqs_padded": 5,
        "max_query_len": 3,
        "max_seq_len": 7,
        "num_prefills": 3,
        "num_prefill_tokens": 5,
        "num_decodes": 1,
        "num_decode_tokens": 1,
        "compress_ratio": 1,
        "dcp_world_size": 1,
        "dcp_rank": 0,
        "cp_kv_cache_interleave_size": 1,
    }
    assert {name: shown(STEP, name) for name in numbers} == numbers


@pytest.mark.parametrize(
    ("case", "operation", "name", "values"),
    [
        (STEP, "sequence_layout", "query_start_loc", [0, 2, 2, 3, 6, 6]),
        (STEP, "sequence_layout", "req_id_per_token", [0, 0, 2, 3, 3, 3, 0, 0]),
        (STEP, "position_ids", "positions", [3, 4, 6, 0, 1, 2, 0, 0]),
        (STEP, "slot_mapping", "slot_mapping", [23, 8, 14, 36, 37, 38, -1, -1, -1]),
        (STEP, "causal_windows", "cu_seqlen_ks", [0, 0, 5, 5, 5]),
        (STEP, "causal_windows", "cu_seqlen_ke", [4, 5, 6, 7, 8]),
        (WINDOWED, "causal_windows", "cu_seqlen_ks", [2, 3, 5, 5, 6]),
        (WINDOWED, "causal_windows", "cu_seqlen_ke", [4, 5, 6, 7, 8]),
        (PARALLEL, "slot_mapping", "slot_mapping", [21, -1, -1, 22, 23, -1, 12]),
        (PARALLEL, "causal_windows", "cu_seqlen_ks", [0, 0, 0, 0, 0, 4, 4]),
        (PARALLEL, "causal_windows", "cu_seqlen_ke", [2, 2, 2, 3, 4, 4, 5]),
        (COMPRESSED, "causal_windows", "cu_seqlen_ks", [0, 0, 0, 0, 0, 0]),
        (COMPRESSED, "causal_windows", "cu_seqlen_ke", [0, 0, 0, 1, 1, 2]),
        (DEALT, "causal_windows", "cu_seqlen_ks", [0, 0, 0, 2, 2, 2]),
        (DEALT, "causal_windows", "cu_seqlen_ke", [1, 1, 2, 2, 2, 3]),
        (HYBRID, "slot_mapping", "slot_mapping", [23, 8]),
        (ROUTING, "grouped_topk", "topk_ids", [0, 1, 0, 1, ANY, ANY]),
        (ROUTING, "grouped_topk", "topk_weights", [1.25, 1.25, 1.25, 1.25, ANY, ANY]),
        (SELECTING, "topk_to_slots", "out", [23, 20, 8, 23, 29, 28, -1, -1]),
        (GAPS, "topk_to_slots", "out", [28, -1, -1, -1, 29, 28, -1, -1, -1, 29, 28, 30]),
        (GAPS, "compact_topk_slots", "out", [28, -1, -1, -1, 29, 28, -1, -1, 29, 28, 30, -1]),
        (GATHERING, "topk_to_slots", "out", [22, 20, 1, 0, -1, 2, -1, -1]),
        (GATHERING, "compact_topk_slots", "out", [22, 20, 1, 0, 2, -1, -1, -1]),
        (GATHERING, "compact_topk_slots", "valid_counts", [2, 2, 1, 0]),
        # third_party/flash_linear_attention/ops/index.py and models/kimi_k3/amd/kda_metadata.py, 0.33.0.
        (STEP, "sequence_chunks", "chunk_indices", [0, 0, 2, 0, 3, 0, 3, 1]),
        (STEP, "sequence_chunks", "chunk_offsets", [0, 1, 1, 2, 4, 4]),
        # v1/attention/backends/mamba_attn.py, _compute_chunk_metadata, 0.33.0: position 3 ends a chunk.
        (STEP, "sequence_chunks", "seq_idx", [0, 0, 2, 3, 3]),
        (STEP, "sequence_chunks", "cu_chunk_seqlen", [0, 1, 2, 3, 5, 6]),
        (STEP, "sequence_chunks", "last_chunk_indices", [1, 1, 2, 4]),
        # v1/attention/backends/mla/indexer.py, _prepare_decode_tensors, 0.33.0.
        (STEP, "flat_decodes", "decode_seq_lens", [4, 5, 7, 1, 2, 3, 0, 0]),
        # v1/attention/backends/mla/rocm_aiter_mla_sparse.py, generate_sparse_seqlen_triton, 0.33.0.
        (STEP, "flat_decodes", "sparse_seqlen", [2, 2, 2, 1, 2, 2, 0, 0]),
        (STEP, "flat_decodes", "paged_kv_indptr", [0, 2, 4, 6, 7, 9, 11, 11, 11]),
        (CHUNKED, "chunked_context", "context_chunk_starts", [0, 0, 0, 8, 8, 8]),
        (CHUNKED, "chunked_context", "context_chunk_seq_lens", [8, 0, 3, 1, 0, 0]),
        (CHUNKED, "chunked_context", "context_chunk_cu_seq_lens", [0, 8, 8, 11, 0, 1, 1, 1]),
        (CHUNKED, "chunked_context", "context_chunk_seq_tot", [11, 1]),
        (CHUNKED, "chunked_context", "context_chunk_max_seq_lens", [8, 1]),
    ],
)
def test_outputs_are_as_worked_by_hand(case: Case, operation: str, name: str, values: list[Any]) -> None:
    assert expected(case, operation, name) == values


def test_a_router_is_asked_as_worked_by_hand() -> None:
    numbers = {"topk": 2, "num_expert_group": 2, "topk_group": 1, "renormalize": True}
    assert {name: shown(ROUTING, name) for name in numbers} == numbers
    assert shown(ROUTING, "routed_scaling_factor") == 2.5
    logits, bias = (
        VLLM.inputs[name].hold(Inputs(ROUTING)) for name in ("gating_output", "e_score_correction_bias")
    )
    assert isinstance(logits, Floats) and isinstance(bias, Floats)
    assert (logits.dtype, logits.shape, bias.dtype, bias.values.tolist()) == (
        "bf16",
        (3, 8),
        "fp32",
        [0.125] * 8,
    )
    assert logits.values[0].tolist() == [logits.values[0, 0]] * 8


def test_selected_tokens_are_held_as_worked_by_hand() -> None:
    names = ("req_id", "token_indices", "BLOCK_SIZE", "NUM_TOPK_TOKENS", "dcp_size")
    held = [[0, 0, 1, 0], [[3, 0], [4, 3], [1, 0], [-1, -1]], 4, 2, 1]
    assert [shown(SELECTING, name) for name in names] == held
    assert shown(GAPS, "token_indices") == [[0, -1, -1, -1], [1, 0, 5, -1], [-1, 1, 0, 2]]


def test_a_workspace_is_held_as_worked_by_hand() -> None:
    names = ("HAS_PREFILL_WORKSPACE", "prefill_workspace_request_ids", "prefill_workspace_starts")
    assert [shown(GATHERING, name) for name in names] == [True, [-1, 0, 1, -1], [0, 2]]
    inputs = Inputs(SELECTING)
    assert [VLLM.inputs[name].hold(inputs) for name in names] == [False, None, None]


def test_chunks_are_asked_for_as_worked_by_hand() -> None:
    numbers = {
        "chunked_prefill_workspace_size": 19,
        "num_prefills_with_context_cpu": 2,
        "max_context_len_cpu": 9,
        "context_lens_cpu": [9, 0, 3],
        "context_lens_tensor": [9, 0, 3],
    }
    assert {name: shown(CHUNKED, name) for name in numbers} == numbers


def test_a_rank_has_row_starts_of_its_own() -> None:
    assert shown(PARALLEL, "cu_seq_lens") == [0, 8, 11]
    assert shown(PARALLEL, "local_cu_seq_lens") == [0, 4, 5]


def test_compressed_rows_are_a_sum_of_floors() -> None:
    assert shown(COMPRESSED, "cu_seq_lens") == [0, 0, 0, 2]


def test_a_rank_has_its_share_of_the_compressed_rows() -> None:
    assert shown(DEALT, "cu_seq_lens") == [0, 4, 6]
    assert shown(DEALT, "local_cu_seq_lens") == [0, 2, 3]


def test_the_table_of_a_kernel_holds_kernel_blocks() -> None:
    assert shown(HYBRID, "block_table") == [[10, 11, 4, 5]]


def test_there_are_no_more_slots_than_new_rows() -> None:
    binding = binding_of(concat_and_cache_mla, "cache_write", "vllm")
    lens = set()
    for case in islice(seeded_cases(0, binding.domain, binding.features), 200):
        inputs = Inputs(case)
        latents, slots = VLLM.inputs["kv_c"].hold(inputs), VLLM.inputs["slot_mapping"].hold(inputs)
        assert isinstance(latents, Rows) and isinstance(slots, Ints)
        lens.add(latents.shape[0] - slots.shape[0])
    assert min(lens) == 0 and max(lens) > 0


def test_the_example_of_the_page_runs() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    scope: dict[str, Any] = {}
    exec(compile(example, str(PAGE), "exec"), scope)
    assert scope["verdict"].ok

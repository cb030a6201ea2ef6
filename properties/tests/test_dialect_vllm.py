"""The dialect of vLLM: worked by hand, right and wrong kernels, and the way back from tensors."""

import re
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cumae.properties.dialects
from cumae.fixtures.correct.cache_rows import concat_and_cache_mla
from cumae.oracle import ANY, Batch, Case, Inputs, Layout, Options, Request
from cumae.properties.batches.domain import Domain
from cumae.properties.batches.seeded import seeded_case, seeded_cases
from cumae.properties.checks import checks_for
from cumae.properties.conformance import binding_of, fixture_cases
from cumae.properties.dialects import VLLM, Floats, Held, Ints, Rows
from cumae.properties.dialects.capture import case_from_tensors
from cumae.properties.operations import OPERATIONS
from cumae.properties.running.device import prepare
from cumae.properties.search import Budget, search
from cumae.properties.verdict import Verdict

DEVICE = prepare("auto")
PAGE = Path(cumae.properties.dialects.__file__).with_name("vllm.md")
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
PARALLEL = Case(
    Batch((Request(3, 5, (5,)), Request(1, 2, (3,))), 4, 2), options=Options(rank=1, interleave=2)
)
COMPRESSED = Case(
    Batch((Request(0, 1, (1,)), Request(0, 1, (2,)), Request(0, 4, (3,))), 4),
    options=Options(compress_ratio=2),
)
HYBRID = Case(Batch((Request(3, 2, (5, 2)),), 4), options=Options(kernel_block_size=2))

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
    Options(chunk_blocks=2, workspace_slack=3),
)
# The three tokens select positions (3, 0) and (4, 3) of request 0, and (1, 0) of request 1.
SELECTING = Case(
    Batch((Request(3, 2, (5, 2)), Request(1, 1, (7,))), 4), Layout(num_padding_tokens=1), Options(topk=2)
)
# A decode that reads the cache, and two prefills whose keys stand in a workspace, two rows and then one.
GATHERING = Case(
    Batch((Request(2, 1, (5,), "decode"), Request(1, 1, (7,)), Request(0, 1, (2,))), 4),
    Layout(num_padding_tokens=1),
    Options(topk=2, prefill_workspace=True),
)
# Two tokens whose experts are all equal, and a row of padding.
ROUTING = Case(
    Batch((Request(0, 2, (5,)),), 4),
    Layout(num_padding_tokens=1),
    Options(logits_kind="equal", scaling_thousandths=2500, logits_dtype="bf16"),
)


def shown(case: Case, name: str) -> Any:
    held = VLLM.inputs[name].hold(Inputs(case))
    return held.values.tolist() if isinstance(held, Ints) else held


def expected(case: Case, operation: str, name: str) -> list[Any]:
    inputs = Inputs(case)
    answer = inputs.call(OPERATIONS[operation].oracle)
    output = VLLM.outputs[operation, name]
    values = output.expect(answer, inputs)
    assert output.length(inputs) * (output.width(case) if output.width else 1) == len(values)
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
        (PARALLEL, "slot_mapping", "slot_mapping", [21, -1, -1, 22, 23, -1, 12]),
        (PARALLEL, "causal_windows", "cu_seqlen_ks", [0, 0, 0, 0, 0, 4, 4]),
        (PARALLEL, "causal_windows", "cu_seqlen_ke", [2, 2, 2, 3, 4, 4, 5]),
        (COMPRESSED, "causal_windows", "cu_seqlen_ks", [0, 0, 0, 0, 0, 0]),
        (COMPRESSED, "causal_windows", "cu_seqlen_ke", [0, 0, 0, 1, 1, 2]),
        (HYBRID, "slot_mapping", "slot_mapping", [23, 8]),
        (ROUTING, "grouped_topk", "topk_ids", [0, 1, 0, 1, ANY, ANY]),
        (ROUTING, "grouped_topk", "topk_weights", [1.25, 1.25, 1.25, 1.25, ANY, ANY]),
        (SELECTING, "topk_to_slots", "out", [23, 20, 8, 23, 29, 28, -1, -1]),
        (GATHERING, "topk_to_slots", "out", [22, 20, 1, 0, 2, -1, -1, -1]),
        (GATHERING, "compact_topk_slots", "out", [22, 20, 1, 0, 2, -1, -1, -1]),
        (GATHERING, "compact_topk_slots", "valid_counts", [2, 2, 1, 0]),
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


def test_the_table_of_a_kernel_holds_kernel_blocks() -> None:
    assert shown(HYBRID, "block_table") == [[10, 11, 4, 5]]


def layout_of_requests(
    seq_lens: torch.Tensor,
    num_computed_tokens: torch.Tensor,
    query_start_loc: torch.Tensor,
    req_id_per_token: torch.Tensor,
) -> None:
    query_lens = seq_lens - num_computed_tokens
    query_start_loc[0] = 0
    query_start_loc[1:] = query_lens.cumsum(0)
    requests = torch.arange(len(query_lens), device=query_lens.device, dtype=torch.int32)
    live = requests.repeat_interleave(query_lens.long())
    req_id_per_token.zero_()
    req_id_per_token[: len(live)] = live


def positions_of_tokens(
    query_start_loc: torch.Tensor, num_computed_tokens: torch.Tensor, positions: torch.Tensor
) -> None:
    positions.zero_()
    for b, context_len in enumerate(num_computed_tokens.tolist()):
        start, stop = query_start_loc[b : b + 2].tolist()
        positions[start:stop] = torch.arange(context_len, context_len + stop - start)


def request_of(query_start_loc: torch.Tensor, num_tokens: int) -> torch.Tensor:
    tokens = torch.arange(num_tokens, device=query_start_loc.device, dtype=torch.int32)
    return torch.searchsorted(query_start_loc, tokens, right=True) - 1


def slots_by_virtual_block(
    query_start_loc: torch.Tensor,
    positions: torch.Tensor,
    block_table: torch.Tensor,
    block_size: int,
    kernel_block_size: int,
    num_tokens: int,
    dcp_world_size: int,
    dcp_rank: int,
    cp_kv_cache_interleave_size: int,
    slot_mapping: torch.Tensor,
) -> None:
    slot_mapping.fill_(-1)
    if num_tokens == 0:
        return
    world, run = dcp_world_size, cp_kv_cache_interleave_size
    request = request_of(query_start_loc, num_tokens)
    block, offset = (
        positions[:num_tokens] // (block_size * world),
        positions[:num_tokens] % (block_size * world),
    )
    local = offset // (world * run) * run + offset % run
    column = block * (block_size // kernel_block_size) + local // kernel_block_size
    slots = block_table[request, column].long() * kernel_block_size + local % kernel_block_size
    slot_mapping[:num_tokens] = torch.where(offset // run % world == dcp_rank, slots, -1)


def windows_of_a_chunk(
    prefill_query_start_loc: torch.Tensor,
    uncompressed_seq_lens: torch.Tensor,
    local_cu_seq_lens: torch.Tensor,
    num_prefill_tokens: int,
    compress_ratio: int,
    dcp_world_size: int,
    dcp_rank: int,
    cp_kv_cache_interleave_size: int,
    cu_seqlen_ks: torch.Tensor,
    cu_seqlen_ke: torch.Tensor,
) -> None:
    if num_prefill_tokens == 0:
        return
    world, run = dcp_world_size, cp_kv_cache_interleave_size
    request = request_of(prefill_query_start_loc, num_prefill_tokens)
    behind = torch.arange(num_prefill_tokens, device=request.device) - prefill_query_start_loc[request + 1]
    visible = (uncompressed_seq_lens[request] + behind + 1) // compress_ratio
    rest = (visible % (world * run) - dcp_rank * run).clamp(0, run)
    cu_seqlen_ks.copy_(local_cu_seq_lens[request])
    cu_seqlen_ke.copy_(local_cu_seq_lens[request] + visible // (world * run) * run + rest)


def slots_of_selected_tokens(
    req_id: torch.Tensor,
    block_table: torch.Tensor,
    token_indices: torch.Tensor,
    BLOCK_SIZE: int,
    dcp_size: int,
    dcp_rank: int,
    cp_kv_cache_interleave_size: int,
    prefill_workspace_request_ids: torch.Tensor | None,
    prefill_workspace_starts: torch.Tensor | None,
    out: torch.Tensor,
) -> None:
    out.fill_(-1)
    if 0 in block_table.shape:
        return
    run, token = cp_kv_cache_interleave_size, token_indices.long()
    local = token // (dcp_size * run) * run + token % run
    column = local // BLOCK_SIZE
    mine = (token >= 0) & (token // run % dcp_size == dcp_rank) & (column < block_table.shape[1])
    block = block_table[req_id.long()[:, None], torch.where(mine, column, 0)].long()
    slots = torch.where(mine, block * BLOCK_SIZE + local % BLOCK_SIZE, -1)
    if prefill_workspace_request_ids is not None and prefill_workspace_starts is not None:
        for row, request in enumerate(prefill_workspace_request_ids.tolist()):
            if request >= 0:
                placed = prefill_workspace_starts[request] + token[row]
                slots[row] = torch.where(token[row] >= 0, placed, -1)
    out.copy_(slots.flatten())


def slots_in_front(
    req_id: torch.Tensor,
    block_table: torch.Tensor,
    token_indices: torch.Tensor,
    BLOCK_SIZE: int,
    dcp_size: int,
    dcp_rank: int,
    cp_kv_cache_interleave_size: int,
) -> dict[str, torch.Tensor]:
    """Return the slots of each row, the last selected first."""
    slots = torch.empty(token_indices.numel(), dtype=torch.int32, device=token_indices.device)
    given = (BLOCK_SIZE, dcp_size, dcp_rank, cp_kv_cache_interleave_size, None, None)
    slots_of_selected_tokens(req_id, block_table, token_indices, *given, slots)
    rows = slots.reshape(token_indices.shape).flip(1)
    order = (rows < 0).int().sort(dim=1, stable=True).indices
    return {"out": rows.gather(1, order).flatten(), "valid_counts": (rows >= 0).sum(1).int()}


def chunks_of_context(
    context_lens_tensor: torch.Tensor,
    chunked_prefill_workspace_size: int,
    num_prefills_with_context_cpu: int,
    max_context_len_cpu: int,
    block_size: int,
) -> dict[str, torch.Tensor]:
    count, device = len(context_lens_tensor), context_lens_tensor.device
    size = chunked_prefill_workspace_size // max(num_prefills_with_context_cpu, 1) // block_size * block_size
    starts = torch.arange(0, max_context_len_cpu, size, dtype=torch.int32, device=device)[:, None]
    lens = (context_lens_tensor - starts).clamp(0, size)
    ends = torch.zeros(len(starts), count + 1, dtype=torch.int32, device=device)
    ends[:, 1:] = lens.cumsum(1)
    longest = lens.amax(1) if len(starts) else starts.flatten()
    return {
        "context_chunk_starts": starts.expand(-1, count).flatten(),
        "context_chunk_seq_lens": lens.flatten(),
        "context_chunk_cu_seq_lens": ends.flatten(),
        "context_chunk_seq_tot": ends[:, -1].contiguous(),
        "context_chunk_max_seq_lens": longest,
    }


RIGHT: dict[str, Callable[..., Any]] = {
    "sequence_layout": layout_of_requests,
    "position_ids": positions_of_tokens,
    "slot_mapping": slots_by_virtual_block,
    "causal_windows": windows_of_a_chunk,
    "topk_to_slots": slots_of_selected_tokens,
    "compact_topk_slots": slots_in_front,
    "chunked_context": chunks_of_context,
}


def verdict_on(function: Callable[..., Any], operation: str) -> Verdict:
    binding = binding_of(function, operation, "vllm")
    return search(
        binding, DEVICE, Budget(examples=60, seed=3), checks=checks_for(binding), first=fixture_cases(binding)
    )


@pytest.mark.parametrize("operation", RIGHT)
def test_a_right_kernel_passes_every_check(operation: str) -> None:
    verdict = verdict_on(RIGHT[operation], operation)
    assert verdict.failure is None, verdict.failure
    assert verdict.cases >= 60


def test_the_launcher_of_the_design_document_binds() -> None:
    def mine(
        query_start_loc: torch.Tensor,
        positions: torch.Tensor,
        block_table: torch.Tensor,
        block_size: int,
        num_tokens: int,
        slot_mapping: torch.Tensor,
        TILE: int = 1024,
    ) -> None:
        slots_by_virtual_block(
            query_start_loc, positions, block_table, block_size, block_size, num_tokens, 1, 0, 1, slot_mapping
        )

    assert verdict_on(mine, "slot_mapping").ok


def padding_from_the_padded_count(
    query_start_loc: torch.Tensor,
    positions: torch.Tensor,
    block_table: torch.Tensor,
    block_size: int,
    num_tokens: int,
    num_actual_tokens: int,
    slot_mapping: torch.Tensor,
) -> None:
    """vllm#36580: slots of the step before stay between the true and the padded count."""
    request = request_of(query_start_loc, num_tokens)
    live = positions[:num_tokens]
    if num_tokens:
        slot_mapping[:num_tokens] = block_table[request, live // block_size] * block_size + live % block_size
    slot_mapping[num_actual_tokens:] = -1


def row_times_stride_in_32_bits(
    query_start_loc: torch.Tensor,
    positions: torch.Tensor,
    block_table: torch.Tensor,
    block_size: int,
    num_tokens: int,
    slot_mapping: torch.Tensor,
) -> None:
    """vllm#57030: the row's offset wraps; what lies before the table is read as block 0."""
    slot_mapping.fill_(-1)
    for t, request in enumerate(request_of(query_start_loc, num_tokens).tolist()):
        column, offset = divmod(int(positions[t]), block_size)
        wraps = request * block_table.stride(0) + column >= 2**31
        slot_mapping[t] = (0 if wraps else int(block_table[request, column])) * block_size + offset


def starts_in_tokens(
    prefill_query_start_loc: torch.Tensor,
    uncompressed_seq_lens: torch.Tensor,
    num_prefill_tokens: int,
    compress_ratio: int,
    cu_seqlen_ks: torch.Tensor,
    cu_seqlen_ke: torch.Tensor,
) -> None:
    """vllm#51252: rows of the chunk are counted in tokens where the buffer holds compressed rows."""
    starts = torch.zeros_like(prefill_query_start_loc)
    starts[1:] = uncompressed_seq_lens.cumsum(0)
    windows_of_a_chunk(
        prefill_query_start_loc,
        uncompressed_seq_lens,
        starts,
        num_prefill_tokens,
        compress_ratio,
        1,
        0,
        1,
        cu_seqlen_ks,
        cu_seqlen_ke,
    )


def padding_keeps_an_older_map(
    seq_lens: torch.Tensor,
    num_computed_tokens: torch.Tensor,
    query_start_loc: torch.Tensor,
    req_id_per_token: torch.Tensor,
) -> None:
    """TensorRT-LLM nvbugs 6513132: tokens of padding keep the request of an earlier step."""
    stale = req_id_per_token.clone()
    layout_of_requests(seq_lens, num_computed_tokens, query_start_loc, req_id_per_token)
    num_tokens = int(query_start_loc[-1])
    req_id_per_token[num_tokens:] = stale[num_tokens:]


def every_draft_of_request_zero(
    req_id: torch.Tensor,
    block_table: torch.Tensor,
    token_indices: torch.Tensor,
    BLOCK_SIZE: int,
    out: torch.Tensor,
) -> None:
    """TensorRT-LLM nvbugs 6513132: the map of an older step names request 0 for each token."""
    slots_of_selected_tokens(req_id * 0, block_table, token_indices, BLOCK_SIZE, 1, 0, 1, None, None, out)


def chunks_that_cut_blocks(
    context_lens_tensor: torch.Tensor,
    chunked_prefill_workspace_size: int,
    num_prefills_with_context_cpu: int,
    max_context_len_cpu: int,
) -> dict[str, torch.Tensor]:
    """A chunk may begin inside a block, where gathers from the cache cannot."""
    return chunks_of_context(
        context_lens_tensor,
        chunked_prefill_workspace_size,
        num_prefills_with_context_cpu,
        max_context_len_cpu,
        1,
    )


@pytest.mark.parametrize(
    ("function", "operation", "check"),
    [
        (padding_from_the_padded_count, "slot_mapping", "writes_everything"),
        (row_times_stride_in_32_bits, "slot_mapping", "survives_large_ids"),
        (starts_in_tokens, "causal_windows", "agrees"),
        (padding_keeps_an_older_map, "sequence_layout", "writes_everything"),
        (every_draft_of_request_zero, "topk_to_slots", "agrees"),
    ],
    ids=["vllm#36580", "vllm#57030", "vllm#51252", "nvbugs 6513132", "nvbugs 6513132, slots"],
)
def test_a_bug_that_shipped_is_found(function: Callable[..., Any], operation: str, check: str) -> None:
    failure = verdict_on(function, operation).failure
    assert failure is not None
    assert failure.finding.check == check


def test_chunks_that_cut_blocks_are_found() -> None:
    failure = verdict_on(chunks_that_cut_blocks, "chunked_context").failure
    assert failure is not None
    assert failure.finding.check == "agrees"


def test_the_example_of_the_page_runs() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    scope: dict[str, Any] = {}
    exec(compile(example, str(PAGE), "exec"), scope)
    assert scope["verdict"].ok


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


def as_dumped(held: Held, kind: int) -> Any:
    if not isinstance(held, Ints):
        return held
    return (torch.from_numpy(held.values), held.values, held.values.tolist())[kind % 3]


def dumped(case: Case, names: tuple[str, ...], kind: int) -> dict[str, Any]:
    inputs = Inputs(case)
    return {name: as_dumped(VLLM.inputs[name].hold(inputs), kind) for name in names}


def said(case: Case) -> list[tuple[Any, ...]]:
    """What a batch says: lengths, live blocks, and the phase of what computes something."""
    return [
        (r.context_len, r.query_len, r.block_ids[: case.batch.num_live_blocks(r)], r.query_len and r.phase)
        for r in case.batch.requests
    ]


def test_there_are_no_more_slots_than_new_rows() -> None:
    binding = binding_of(concat_and_cache_mla, "cache_write", "vllm")
    lens = set()
    for case in islice(seeded_cases(0, binding.domain, binding.features), 200):
        inputs = Inputs(case)
        latents, slots = VLLM.inputs["kv_c"].hold(inputs), VLLM.inputs["slot_mapping"].hold(inputs)
        assert isinstance(latents, Rows) and isinstance(slots, Ints)
        lens.add(latents.shape[0] - slots.shape[0])
    assert min(lens) == 0 and max(lens) > 0


@pytest.mark.parametrize("part", range(4))
def test_tensors_of_a_case_give_it_back(part: int) -> None:
    for number in range(50 * part, 50 * part + 50):
        case = seeded_case(number, Domain(reserved_blocks=1), VARIED)
        lens = ("num_computed_tokens", "seq_lens")[number % 2]
        names = (*CAPTURED, lens)
        flags = [request.phase == "prefill" for request in case.batch.requests]
        back = case_from_tensors("vllm", **dumped(case, names, number), is_prefill=flags)
        assert said(back) == said(case)
        assert (back.batch.block_size, back.batch.world) == (case.batch.block_size, case.batch.world)
        assert (back.options.rank, back.kernel_block_size) == (case.options.rank, case.kernel_block_size)
        assert dumped(back, ("query_start_loc", "seq_lens", "positions"), 2) == dumped(
            case, ("query_start_loc", "seq_lens", "positions"), 2
        )


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
        ({"num_computed_tokens": None}, "num_computed_tokens = None, must be given, or seq_lens"),
        ({"num_prefills": None}, "phase = [], must be given by one of is_prefill, num_prefills"),
        ({"is_prefill": [0, 1]}, "phase = ['is_prefill', 'num_prefills'], must be given by one of"),
        ({"slot_mapping": [1]}, "tensor = 'slot_mapping', must be a tensor that vllm reads"),
        ({"query_start_loc": [0, 4, 1]}, "query_start_loc[2] = 1, must be >= 4, never fall"),
        ({"query_start_loc": [1, 2, 4]}, "query_start_loc[0] = 1, must be 0"),
        ({"query_start_loc": [0.0, 1.0, 4.0]}, "query_start_loc[0] = 0.0, must be an integer"),
        ({"num_computed_tokens": [6]}, "num_computed_tokens: number = 1, must be 2"),
        ({"num_computed_tokens": [6, -3]}, "num_computed_tokens[1] = -3, must be >= 0"),
        ({"seq_lens": [7, 2]}, "seq_lens[1] = 2, must be >= 3, its query length"),
        ({"seq_lens": [9, 6]}, "seq_lens[0] = 9, must be num_computed_tokens + query length"),
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

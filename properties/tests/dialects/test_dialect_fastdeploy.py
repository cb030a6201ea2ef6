"""The dialect of FastDeploy: worked by hand, right and wrong kernels, and the way back from tensors."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import cumae.properties.dialects
from cumae.oracle import UNTOUCHED, Batch, Case, Inputs, Layout, Options, Request
from cumae.properties.cases.seeded import seeded_case
from cumae.properties.checks import checks_for
from cumae.properties.dialects import FASTDEPLOY, Held, Ints, Rows
from cumae.properties.dialects.dump import case_from_tensors
from cumae.properties.operations import OPERATIONS
from cumae.properties.operations.binding import binding_of
from cumae.properties.operations.expected import expected_of
from cumae.properties.operations.outputs import outputs_of, shape_of
from cumae.properties.results.verdict import Verdict
from cumae.properties.running.device import prepare
from cumae.properties.search.budget import Budget
from cumae.properties.search.first_cases import fixture_cases
from cumae.properties.search.loop import search

DEVICE = prepare("auto")
PAGE = Path(cumae.properties.dialects.__file__).parent / "fastdeploy/README.md"
KEPT = UNTOUCHED
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
        garbage="huge",
    ),
)
HUGE = 2**31 - 1


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("seq_lens_encoder", [[2], [0], [0], [3], [0]]),
        ("seq_lens_decoder", [[3], [0], [6], [0], [0]]),
        ("seq_lens_this_time", [2, 0, 1, 3, 0]),
        ("cu_seqlens_q", [0, 2, 2, 3, 6, 6]),
        ("cu_seqlens_k", [0, 5, 5, 12, 15, 15]),
        ("cu_seqlens_cached_kv", [0, 3, 3, 9, 9, 9]),
        ("batch_id_per_token", [0, 0, 2, 3, 3, 3, -1, -1]),
        ("positions", [3, 4, 6, 0, 1, 2, HUGE, HUGE]),
        ("position_ids", [3, 4, 6, 0, 1, 2, HUGE, HUGE]),
        (
            "block_tables",
            [[5, 2, -1], [-1, -1, -1], [7, 3, -1], [9, -1, -1], [-1, -1, -1], [-1, -1, -1]],
        ),
    ],
)
def test_a_step_is_held_as_worked_by_hand(name: str, values: list[Any]) -> None:
    held = FASTDEPLOY.inputs[name].hold(Inputs(STEP))
    assert isinstance(held, Ints)
    assert (held.dtype, held.values.tolist()) == ("int32", values)


def test_the_host_numbers_are_those_of_the_step() -> None:
    numbers = {"block_size": 4, "token_num": 6, "real_bsz": 4}
    assert {name: FASTDEPLOY.inputs[name].hold(Inputs(STEP)) for name in numbers} == numbers


@pytest.mark.parametrize(
    ("operation", "name", "dtype", "values"),
    [
        ("sequence_layout", "cu_seqlens_q", "int32", [0, 2, 2, 3, 6, 6]),
        ("sequence_layout", "cu_seqlens_k", "int32", [0, 5, 5, 12, 15, 15]),
        ("sequence_layout", "batch_id_per_token", "int32", [0, 0, 2, 3, 3, 3, -1, -1]),
        ("position_ids", "position_ids", "int32", [3, 4, 6, 0, 1, 2, KEPT, KEPT]),
        ("slot_mapping", "position_ids", "int64", [3, 4, 6, 0, 1, 2, KEPT, KEPT]),
        ("slot_mapping", "slot_mapping", "int64", [23, 8, 14, 36, 37, 38, KEPT, KEPT, KEPT]),
        ("causal_windows", "ks", "int32", [0, 0, 0, 12, 12, 12, 0, 0]),
        ("causal_windows", "ke", "int32", [4, 5, 0, 13, 14, 15, 0, 0]),
    ],
)
def test_outputs_are_as_worked_by_hand(operation: str, name: str, dtype: str, values: list[Any]) -> None:
    inputs = Inputs(STEP)
    output = outputs_of(OPERATIONS[operation], FASTDEPLOY)[name]
    answer = inputs.call(OPERATIONS[operation].oracle)
    assert (output.dtype, shape_of(output, STEP)) == (dtype, (len(values),))
    assert output.values(answer, inputs) == values


def test_latent_rows_are_as_worked_by_hand() -> None:
    """The fused read of FastDeploy#7727: cached rows of each request, then its new ones."""
    dims = replace(STEP, options=Options.of(kv_lora_rank=2, qk_rope_head_dim=1))
    inputs = Inputs(dims)
    held = {
        name: FASTDEPLOY.inputs[name].hold(inputs) for name in ("latent_cache", "compressed_kv", "key_pe")
    }
    cache, new, rope = (rows for rows in held.values() if isinstance(rows, Rows))
    assert (cache.shape, new.shape, rope.shape) == ((10, 1, 4, 3), (6, 2), (6, 1))
    outputs = outputs_of(OPERATIONS["prefix_interleave"], FASTDEPLOY)
    wanted = expected_of(OPERATIONS["prefix_interleave"], outputs.values(), inputs, held.__getitem__)
    cached = [(5, 0), (5, 1), (5, 2), (7, 0), (7, 1), (7, 2), (7, 3), (3, 0), (3, 1)]
    row_of = {(int(b), int(o)): content for (b, _, o), content in zip(cache.live, cache.content, strict=True)}
    by_hand = [row_of[place] for place in cached]
    latents = [*by_hand[:3], 0, 1, *by_hand[3:], 2, 3, 4, 5]
    for name, columns, tokens in (("full_compressed_kv", slice(0, 4), new), ("full_k_pe", slice(4, 6), rope)):
        rows = [tokens.content[row] if isinstance(row, int) else row[columns] for row in latents]
        assert shape_of(outputs[name], dims)[0] == len(rows)
        assert wanted[name].words.tolist() == [row.tolist() for row in rows]
        assert not wanted[name].state.any()


def layout_of_requests(
    seq_lens_this_time: torch.Tensor,
    seq_lens_decoder: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    batch_id_per_token: torch.Tensor,
) -> None:
    cu_seqlens_q[0] = cu_seqlens_k[0] = 0
    cu_seqlens_q[1:] = seq_lens_this_time.cumsum(0)
    cu_seqlens_k[1:] = (seq_lens_this_time + seq_lens_decoder.flatten()).cumsum(0)
    requests = torch.arange(
        len(seq_lens_this_time), device=seq_lens_this_time.device, dtype=batch_id_per_token.dtype
    )
    live = requests.repeat_interleave(seq_lens_this_time.long())
    batch_id_per_token.fill_(-1)
    batch_id_per_token[: len(live)] = live


def positions_of_tokens(
    seq_lens_encoder: torch.Tensor,
    seq_lens_decoder: torch.Tensor,
    seq_lens_this_time: torch.Tensor,
    position_ids: torch.Tensor,
) -> None:
    row = 0
    lens = zip(
        seq_lens_encoder.flatten().tolist(),
        seq_lens_decoder.flatten().tolist(),
        seq_lens_this_time.tolist(),
        strict=True,
    )
    for encoder, context_len, this_time in lens:
        for i in range(max(encoder, this_time)):
            position_ids[row + i] = context_len + i
        row += max(encoder, this_time)


def positions_and_slots(
    seq_lens_decoder: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    batch_id_per_token: torch.Tensor,
    block_tables: torch.Tensor,
    block_size: int,
    token_num: int,
    position_ids: torch.Tensor,
    slot_mapping: torch.Tensor,
) -> None:
    if token_num == 0:
        return
    request = batch_id_per_token[:token_num].long()
    rows = torch.arange(token_num, device=request.device)
    position = seq_lens_decoder[request, 0] + rows - cu_seqlens_q[request]
    position_ids[:token_num] = position
    blocks = block_tables[request, position // block_size].long()
    slot_mapping[:token_num] = blocks * block_size + position % block_size


def slots_of_positions(
    positions: torch.Tensor,
    batch_id_per_token: torch.Tensor,
    block_tables: torch.Tensor,
    block_size: int,
    slot_mapping: torch.Tensor,
) -> None:
    live = torch.nonzero(batch_id_per_token >= 0).flatten()
    if len(live):
        request, position = batch_id_per_token[live].long(), positions[live].long()
        slot_mapping[live] = block_tables[request, position // block_size].long() * block_size
        slot_mapping[live] += position % block_size


def windows_of_tokens(
    seq_lens_encoder: torch.Tensor,
    seq_lens_decoder: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    batch_id_per_token: torch.Tensor,
    ks: torch.Tensor,
    ke: torch.Tensor,
) -> None:
    ks.zero_()
    ke.zero_()
    for t, b in enumerate(batch_id_per_token.tolist()):
        if b >= 0 and seq_lens_encoder[b, 0] > 0:
            ks[t] = cu_seqlens_k[b]
            ke[t] = cu_seqlens_k[b] + seq_lens_decoder[b, 0] + t - cu_seqlens_q[b] + 1


def keys_of_cache_and_tokens(
    latent_cache: torch.Tensor,
    block_tables: torch.Tensor,
    compressed_kv: torch.Tensor,
    key_pe: torch.Tensor,
    cu_seqlens_cached_kv: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    kv_lora_rank: int,
    block_size: int,
    full_compressed_kv: torch.Tensor,
    full_k_pe: torch.Tensor,
) -> None:
    row = 0
    cached, new = cu_seqlens_cached_kv.tolist(), cu_seqlens_q.tolist()
    for b in range(len(cached) - 1):
        for position in range(cached[b + 1] - cached[b]):
            block = int(block_tables[b, position // block_size])
            latent = latent_cache[block, 0, position % block_size]
            full_compressed_kv[row] = latent[:kv_lora_rank]
            full_k_pe[row] = latent[kv_lora_rank:]
            row += 1
        num_new = new[b + 1] - new[b]
        full_compressed_kv[row : row + num_new] = compressed_kv[new[b] : new[b + 1]]
        full_k_pe[row : row + num_new] = key_pe[new[b] : new[b + 1]]
        row += num_new


RIGHT = [
    (layout_of_requests, "sequence_layout"),
    (positions_of_tokens, "position_ids"),
    (positions_and_slots, "slot_mapping"),
    (slots_of_positions, "slot_mapping"),
    (windows_of_tokens, "causal_windows"),
    (keys_of_cache_and_tokens, "prefix_interleave"),
]


def verdict_on(function: Callable[..., Any], operation: str) -> Verdict:
    binding = binding_of(function, operation, "fastdeploy")
    return search(
        binding, DEVICE, Budget(examples=60, seed=3), checks=checks_for(binding), first=fixture_cases(binding)
    )


@pytest.mark.parametrize(("function", "operation"), RIGHT, ids=lambda value: getattr(value, "__name__", ""))
def test_a_right_kernel_passes_every_check(function: Callable[..., Any], operation: str) -> None:
    verdict = verdict_on(function, operation)
    assert verdict.failure is None, verdict.failure
    assert verdict.cases >= 60


def rows_counted_twice(
    seq_lens_encoder: torch.Tensor,
    seq_lens_decoder: torch.Tensor,
    seq_lens_this_time: torch.Tensor,
    position_ids: torch.Tensor,
) -> None:
    """FastDeploy#7727: the offset adds encoder and this_time, prefill positions begin at 0."""
    row = 0
    lens = zip(
        seq_lens_encoder.flatten().tolist(),
        seq_lens_decoder.flatten().tolist(),
        seq_lens_this_time.tolist(),
        strict=True,
    )
    for encoder, context_len, this_time in lens:
        again = this_time if context_len > 0 else 0
        values = [*range(encoder), *range(context_len, context_len + again)]
        for i, value in enumerate(values):
            if row + i < len(position_ids):
                position_ids[row + i] = value
        row += len(values)


def keys_of_new_tokens_only(
    seq_lens_this_time: torch.Tensor,
    seq_lens_decoder: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    batch_id_per_token: torch.Tensor,
) -> None:
    """FastDeploy#7727: cached tokens are missing from cu_seqlens_k."""
    nothing = torch.zeros_like(seq_lens_decoder)
    layout_of_requests(seq_lens_this_time, nothing, cu_seqlens_q, cu_seqlens_k, batch_id_per_token)


def blocks_of_64(
    latent_cache: torch.Tensor,
    block_tables: torch.Tensor,
    compressed_kv: torch.Tensor,
    key_pe: torch.Tensor,
    cu_seqlens_cached_kv: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    kv_lora_rank: int,
    full_compressed_kv: torch.Tensor,
    full_k_pe: torch.Tensor,
) -> None:
    """FastDeploy#7727 review: the block size is looked up on the wrong object and falls back to 64."""
    flat = latent_cache.flatten(0, 2)
    row = 0
    cached, new = cu_seqlens_cached_kv.tolist(), cu_seqlens_q.tolist()
    for b in range(len(cached) - 1):
        for position in range(cached[b + 1] - cached[b]):
            latent = flat[(int(block_tables[b, position // 64]) * 64 + position % 64) % len(flat)]
            full_compressed_kv[row], full_k_pe[row] = latent[:kv_lora_rank], latent[kv_lora_rank:]
            row += 1
        num_new = new[b + 1] - new[b]
        full_compressed_kv[row : row + num_new] = compressed_kv[new[b] : new[b + 1]]
        full_k_pe[row : row + num_new] = key_pe[new[b] : new[b + 1]]
        row += num_new


def key_offsets_as_rows(
    seq_lens_encoder: torch.Tensor,
    seq_lens_this_time: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    ks: torch.Tensor,
    ke: torch.Tensor,
) -> None:
    """FastDeploy#7598: cu_seqlens_k is taken for the row of the queries, and context is forgotten."""
    ks.zero_()
    ke.zero_()
    for b, query_len in enumerate(seq_lens_this_time.tolist()):
        start = int(cu_seqlens_k[b])
        for i in range(query_len):
            if seq_lens_encoder[b, 0] > 0 and start + i < len(ks):
                ks[start + i] = start
                ke[start + i] = start + i + 1


def one_token_means_decode(
    seq_lens_this_time: torch.Tensor,
    seq_lens_decoder: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    batch_id_per_token: torch.Tensor,
    ks: torch.Tensor,
    ke: torch.Tensor,
) -> None:
    """FastDeploy#8065: a prefill chunk of one token is taken for a decode."""
    guess = torch.where(seq_lens_this_time > 1, seq_lens_this_time, 0).unsqueeze(1)
    windows_of_tokens(guess, seq_lens_decoder, cu_seqlens_q, cu_seqlens_k, batch_id_per_token, ks, ke)


def product_in_32_bits(
    positions: torch.Tensor,
    batch_id_per_token: torch.Tensor,
    block_tables: torch.Tensor,
    block_size: int,
    slot_mapping: torch.Tensor,
) -> None:
    """FastDeploy#7367: block id times block size in int32, widened afterwards."""
    live = torch.nonzero(batch_id_per_token >= 0).flatten()
    if len(live):
        request, position = batch_id_per_token[live].long(), positions[live]
        slots = block_tables[request, position.long() // block_size] * block_size + position % block_size
        slot_mapping[live] = slots.long()


def padding_gets_minus_one(
    positions: torch.Tensor,
    batch_id_per_token: torch.Tensor,
    block_tables: torch.Tensor,
    block_size: int,
    slot_mapping: torch.Tensor,
) -> None:
    """Another engine's habit: here padding keeps what it held."""
    slot_mapping.fill_(-1)
    slots_of_positions(positions, batch_id_per_token, block_tables, block_size, slot_mapping)


@pytest.mark.parametrize(
    ("function", "operation", "check"),
    [
        (rows_counted_twice, "position_ids", "agrees"),
        (keys_of_new_tokens_only, "sequence_layout", "agrees"),
        (key_offsets_as_rows, "causal_windows", "agrees"),
        (one_token_means_decode, "causal_windows", "agrees"),
        (product_in_32_bits, "slot_mapping", "survives_large_ids"),
        (padding_gets_minus_one, "slot_mapping", "writes_everything"),
        (blocks_of_64, "prefix_interleave", "agrees"),
    ],
    ids=["7727 positions", "7727 keys", "7598", "8065", "7367", "padding written", "7727 block size"],
)
def test_a_bug_that_shipped_is_found(function: Callable[..., Any], operation: str, check: str) -> None:
    failure = verdict_on(function, operation).failure
    assert failure is not None
    assert failure.finding.check == check


def test_the_example_of_the_page_runs() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    scope: dict[str, Any] = {}
    exec(compile(example, str(PAGE), "exec"), scope)
    assert scope["verdict"].ok


CAPTURED = ("seq_lens_encoder", "seq_lens_decoder", "seq_lens_this_time", "block_tables", "block_size")


def as_dumped(held: Held, kind: int) -> Any:
    if not isinstance(held, Ints):
        return held
    return (torch.from_numpy(held.values), held.values, held.values.tolist())[kind % 3]


def dumped(case: Case, names: tuple[str, ...], kind: int) -> dict[str, Any]:
    inputs = Inputs(case)
    return {name: as_dumped(FASTDEPLOY.inputs[name].hold(inputs), kind) for name in names}


def said(case: Case) -> list[tuple[Any, ...]]:
    """What a batch says: lengths, live blocks, and the phase of what computes something."""
    return [
        (r.context_len, r.query_len, r.block_ids[: case.batch.num_live_blocks(r)], r.query_len and r.phase)
        for r in case.batch.requests
    ]


@pytest.mark.parametrize("part", range(4))
def test_tensors_of_a_case_give_it_back(part: int) -> None:
    for number in range(50 * part, 50 * part + 50):
        case = seeded_case(number, features=())
        tensors = dumped(case, (*CAPTURED, "real_bsz"), number)
        back = case_from_tensors("fastdeploy", **tensors, num_tokens_padded=case.num_tokens_padded)
        assert said(back) == said(case)
        assert back.batch.block_size == case.batch.block_size
        tokens = ("seq_lens_encoder", "seq_lens_this_time", "cu_seqlens_k", "batch_id_per_token")
        assert dumped(back, tokens, 2) == dumped(case, tokens, 2)


GOOD: dict[str, Any] = {
    "seq_lens_encoder": [[2], [0]],
    "seq_lens_decoder": [[3], [6]],
    "seq_lens_this_time": [2, 1],
    "block_tables": [[5, 2], [7, 3]],
    "block_size": 4,
}


def test_encoder_tokens_make_a_prefill() -> None:
    case = case_from_tensors("fastdeploy", **GOOD)
    assert said(case) == [(3, 2, (5, 2), "prefill"), (6, 1, (7, 3), "decode")]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"block_tables": None}, "block_tables = None, must be given"),
        ({"cu_seqlens_q": [0]}, "tensor = 'cu_seqlens_q', must be a tensor that fastdeploy reads"),
        ({"seq_lens_decoder": [[3]]}, "seq_lens_decoder: number = 1, must be 2"),
        ({"seq_lens_decoder": [[3], [-6]]}, "seq_lens_decoder[1] = -6, must be >= 0"),
        ({"seq_lens_decoder": [[3, 6]]}, "seq_lens_decoder[0] = [3, 6], must be an integer"),
        ({"seq_lens_encoder": [[4], [0]]}, "seq_lens_encoder[0] = 4, must be 0 or this_time = 2"),
        ({"seq_lens_decoder": [[3], [0]]}, "requests[1].context_len = 0, must be >= 1 for a decode"),
        ({"block_tables": [[5], [7]]}, "block_tables[0]: number of columns = 1, must be >= 2"),
        ({"block_tables": [[5, 2]]}, "block_tables: number of rows = 1, must be >= 2"),
        ({"block_tables": [[5, 2], [5, 3]]}, "requests[0].block_ids[0] = 5, must not be written"),
        ({"block_size": True}, "block_size = True, must be an integer"),
        ({"real_bsz": 1}, "seq_lens_this_time[1] = 1, must be 0: padding"),
        ({"num_tokens_padded": 2}, "num_tokens_padded = 2, must be >= 3"),
    ],
)
def test_tensors_that_are_no_step_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        case_from_tensors("fastdeploy", **(GOOD | change))

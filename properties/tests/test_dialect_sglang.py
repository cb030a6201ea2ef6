"""The dialect of SGLang, by hand, there and back, and on implementations right and wrong."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cumae.oracle import ANY, Batch, Case, Inputs, Layout, Options, Request
from cumae.properties import dialects
from cumae.properties.batches.domain import Domain
from cumae.properties.batches.seeded import seeded_cases
from cumae.properties.checks import checks_for
from cumae.properties.conformance import binding_of, fixture_cases
from cumae.properties.dialects import SGLANG, Ints
from cumae.properties.dialects.capture import case_from_tensors
from cumae.properties.dialects.sglang_step import forward_mode
from cumae.properties.operations import OPERATIONS
from cumae.properties.running.device import prepare
from cumae.properties.search import Budget, search
from cumae.properties.verdict import Verdict

DEVICE = prepare("auto")
PAGE = Path(dialects.__file__).parent / "sglang.md"
DECODES = Domain(phases=("decode",), min_requests=1, max_query_len=1, empty_requests=False)

# A chunk behind a prefix, an empty request, a decode beside them; pages of 4 tokens.
MIXED = Case(
    Batch((Request(3, 2, (7, 2)), Request(0, 0), Request(4, 1, (5, 9), "decode")), 4),
    Layout(num_padding_tokens=2, num_padding_requests=1, num_spare_columns=1),
)
# Two requests verify two drafts each; pages of 2 tokens; the graph has room for a third.
VERIFY = Case(
    Batch((Request(3, 2, (4, 1, 6), "decode"), Request(5, 2, (2, 3, 8, 5), "decode")), 2),
    Layout(num_padding_tokens=2, num_padding_requests=1, row_index=(4, 0), num_spare_rows=1),
)
VERIFY_IN_ORDER = replace(VERIFY, layout=Layout(num_padding_requests=1))
# Two decodes; pages of 3 tokens; the graph has room for a third.
DECODE = Case(
    Batch((Request(3, 1, (2, 1), "decode"), Request(1, 1, (4,), "decode")), 3),
    Layout(num_padding_tokens=1, num_padding_requests=1),
)
# Prefixes of 9, 0 and 3 tokens; a chunk may have 4 of each request and 7 more, which is 6 of each.
CHUNKED = Case(
    Batch((Request(9, 1, (5, 2, 6)), Request(0, 2, (7,)), Request(3, 1, (4,), "decode")), 4),
    options=Options(workspace_slack=7),
)
HELD: list[tuple[Case, dict[str, Any]]] = [
    (
        MIXED,
        {
            "forward_mode": "extend",
            "page_size": 4,
            "num_token_non_padded": 3,
            "draft_token_num": 0,
            "seq_lens": ("int64", [5, 0, 5, 1]),
            "cache_seqlens_int32": ("int32", [5, 0, 5, 1]),
            "extend_prefix_lens": ("int32", [3, 0, 4, 0]),
            "extend_seq_lens": ("int32", [2, 0, 1, 0]),
            "extend_start_loc": ("int32", [0, 2, 2, 3]),
            "qo_indptr": ("int32", [0, 2, 2, 3, 3]),
            "cu_seqlens_q": ("int32", [0, 2, 2, 3, 3]),
            "cu_seqlens_k": ("int32", [0, 5, 5, 10, 11]),
            "kv_indptr": ("int32", [0, 3, 3, 7, 7]),
            "token_to_batch_idx": ("int32", [0, 0, 2, -1, -1]),
            "positions": ("int64", [3, 4, 4, 0, 0]),
            "req_pool_indices": ("int64", [2, 3, 1, 0]),
            "req_to_token": (
                "int32",
                [
                    [0, 0, 0, 0, 0, 0],
                    [20, 21, 22, 23, 36, -1],
                    [28, 29, 30, 31, 8, -1],
                    [-1, -1, -1, -1, -1, -1],
                ],
            ),
            "page_table": ("int32", [[7, 2, -1], [-1, -1, -1], [5, 9, -1], [0, 0, 0]]),
            "page_table_1": (
                "int32",
                [
                    [28, 29, 30, 31, 8, -1],
                    [-1, -1, -1, -1, -1, -1],
                    [20, 21, 22, 23, 36, -1],
                    [0, 0, 0, 0, 0, 0],
                ],
            ),
            "topk_indices": ("int32", [[3, 0], [4, 3], [4, 3], [-1, -1], [-1, -1]]),
            "batch_size": 4,
            "chunk_capacity": 16,
            "prefix_chunk_len": 4,
            "num_prefix_chunks": 1,
            "extend_prefix_lens_cpu": ("int32", [3, 0, 4, 0]),
            "extend_seq_lens_cpu": ("int32", [2, 0, 1, 0]),
        },
    ),
    (
        VERIFY,
        {
            "forward_mode": "verify",
            "page_size": 2,
            "num_token_non_padded": 4,
            "draft_token_num": 2,
            "seq_lens": ("int64", [3, 5, 1]),
            "cache_seqlens_int32": ("int32", [5, 7, 3]),
            "extend_prefix_lens": ("int32", [3, 5, 0]),
            "extend_seq_lens": ("int32", [2, 2, 0]),
            "extend_start_loc": ("int32", [0, 2, 4]),
            "qo_indptr": ("int32", [0, 2, 4, 4]),
            "cu_seqlens_q": ("int32", [0, 2, 4, 4]),
            "cu_seqlens_k": ("int32", [0, 5, 12, 15]),
            "kv_indptr": ("int32", [0, 3, 8, 9]),
            "token_to_batch_idx": ("int32", [0, 0, 1, 1, -1, -1]),
            "positions": ("int64", [3, 4, 5, 6, 0, 0]),
            "req_pool_indices": ("int64", [5, 1, 0]),
            "req_to_token": (
                "int32",
                [
                    [0, 0, 0, 0, 0, 0, 0],
                    [4, 5, 6, 7, 16, 17, 10],
                    [-1, -1, -1, -1, -1, -1, -1],
                    [-1, -1, -1, -1, -1, -1, -1],
                    [-1, -1, -1, -1, -1, -1, -1],
                    [8, 9, 2, 3, 12, -1, -1],
                    [-1, -1, -1, -1, -1, -1, -1],
                ],
            ),
            "page_table": ("int32", [[4, 1, 6, -1], [2, 3, 8, 5], [0, 0, 0, 0]]),
            "page_table_1": (
                "int32",
                [
                    [8, 9, 2, 3, 12, -1, -1],
                    [8, 9, 2, 3, 12, -1, -1],
                    [4, 5, 6, 7, 16, 17, 10],
                    [4, 5, 6, 7, 16, 17, 10],
                    [0, 0, 0, 0, 0, 0, 0],
                    [0, 0, 0, 0, 0, 0, 0],
                ],
            ),
            "topk_indices": ("int32", [[3, 0], [4, 3], [5, 4], [6, 5], [-1, -1], [-1, -1]]),
            "batch_size": 3,
            "chunk_capacity": 6,
            "prefix_chunk_len": 2,
            "num_prefix_chunks": 3,
            "extend_prefix_lens_cpu": ("int32", [3, 5, 0]),
            "extend_seq_lens_cpu": ("int32", [2, 2, 0]),
        },
    ),
    (
        DECODE,
        {
            "forward_mode": "decode",
            "page_size": 3,
            "num_token_non_padded": 2,
            "draft_token_num": 0,
            "seq_lens": ("int64", [4, 2, 1]),
            "cache_seqlens_int32": ("int32", [4, 2, 1]),
            "extend_prefix_lens": ("int32", [3, 1, 0]),
            "extend_seq_lens": ("int32", [1, 1, 0]),
            "extend_start_loc": ("int32", [0, 1, 2]),
            "qo_indptr": ("int32", [0, 1, 2, 2]),
            "cu_seqlens_q": ("int32", [0, 1, 2, 2]),
            "cu_seqlens_k": ("int32", [0, 4, 6, 7]),
            "kv_indptr": ("int32", [0, 4, 6, 7]),
            "token_to_batch_idx": ("int32", [0, 1, -1]),
            "positions": ("int64", [3, 1, 0]),
            "req_pool_indices": ("int64", [2, 1, 0]),
            "req_to_token": ("int32", [[0, 0, 0, 0], [12, 13, -1, -1], [6, 7, 8, 3]]),
            "page_table": ("int32", [[2, 1], [4, -1], [0, 0]]),
            "page_table_1": ("int32", [[6, 7, 8, 3], [12, 13, -1, -1], [0, 0, 0, 0]]),
            "topk_indices": ("int32", [[3, 0], [1, 0], [-1, -1]]),
            "batch_size": 3,
            "chunk_capacity": 9,
            "prefix_chunk_len": 3,
            "num_prefix_chunks": 1,
            "extend_prefix_lens_cpu": ("int32", [3, 1, 0]),
            "extend_seq_lens_cpu": ("int32", [1, 1, 0]),
        },
    ),
]
EXPECTED: list[tuple[Case, str, dict[str, list[Any]]]] = [
    (
        MIXED,
        "sequence_layout",
        {
            "extend_start_loc": [0, 2, 2, ANY],
            "qo_indptr": [0, 2, 2, 3, 3],
            "cu_seqlens_q": [0, 2, 2, 3, ANY],
            "cu_seqlens_k": [0, 5, 5, 10, 11],
            "kv_indptr": [0, 3, 3, 7, 7],
            "token_to_batch_idx": [0, 0, 2, ANY, ANY],
        },
    ),
    (MIXED, "position_ids", {"positions": [3, 4, 4, 0, 0]}),
    (MIXED, "slot_mapping", {"out_cache_loc": [31, 8, 36, 0, 0]}),
    (MIXED, "causal_windows", {"ks": [0, 0, 5, ANY, ANY], "ke": [4, 5, 10, ANY, ANY]}),
    (
        VERIFY,
        "sequence_layout",
        {
            "extend_start_loc": [0, 2, ANY],
            "qo_indptr": [0, 2, 4, ANY],
            "cu_seqlens_q": [0, 2, 4, ANY],
            "cu_seqlens_k": [0, 5, 12, 15],
            "kv_indptr": [0, 3, 8, 9],
            "token_to_batch_idx": [0, 0, 1, 1, ANY, ANY],
        },
    ),
    (VERIFY, "position_ids", {"positions": [3, 4, 5, 6, 0, 0]}),
    (VERIFY, "slot_mapping", {"out_cache_loc": [3, 12, 17, 10, 0, 0]}),
    (DECODE, "sequence_layout", {"kv_indptr": [0, 4, 6, 7], "cu_seqlens_k": [0, 4, 6, 7]}),
    (DECODE, "position_ids", {"positions": [3, 1, 0]}),
    (DECODE, "slot_mapping", {"out_cache_loc": [3, 13, 0]}),
    (MIXED, "topk_to_slots", {"result": [31, 28, 8, 31, 36, 23, -1, -1, -1, -1]}),
    (
        replace(VERIFY, layout=Layout(num_padding_requests=1)),
        "topk_to_slots",
        {"result": [3, 8, 12, 3, 17, 16, 10, 17, -1, -1, -1, -1]},
    ),
    (DECODE, "topk_to_slots", {"result": [3, 6, 13, 12, -1, -1]}),
    (
        CHUNKED,
        "chunked_context",
        {
            "prefix_chunk_starts": [0, 0, 0, 6, 6, 6],
            "prefix_chunk_seq_lens": [6, 0, 3, 3, 0, 0],
            "prefix_chunk_cu_seq_lens": [0, 6, 6, 9, 0, 3, 3, 3],
            "prefix_chunk_num_tokens": [9, 3],
            "prefix_chunk_max_seq_lens": [6, 3],
        },
    ),
    (Case(Batch((Request(0, 2, (7,)),), 4)), "chunked_context", {"prefix_chunk_seq_lens": []}),
]


@pytest.mark.parametrize(("case", "held"), HELD, ids=["extend", "verify", "decode"])
def test_every_input_is_what_was_worked_out_by_hand(case: Case, held: dict[str, Any]) -> None:
    assert set(held) == set(SGLANG.inputs)
    for name, wanted in held.items():
        found = SGLANG.inputs[name].hold(Inputs(case))
        if isinstance(found, Ints):
            assert (name, found.dtype, found.values.tolist()) == (name, *wanted)
        else:
            assert (name, found) == (name, wanted)


@pytest.mark.parametrize(("case", "operation", "wanted"), EXPECTED)
def test_every_output_is_what_was_worked_out_by_hand(
    case: Case, operation: str, wanted: dict[str, list[Any]]
) -> None:
    inputs = Inputs(case)
    answer = inputs.call(OPERATIONS[operation].oracle)
    theirs = SGLANG.outputs_of(operation)
    for name, values in wanted.items():
        assert (name, theirs[name].expect(answer, inputs)) == (name, values)
        assert theirs[name].length(inputs) == len(values)


def test_a_slot_that_no_pool_of_32_bit_slots_has_is_nobodys() -> None:
    case = Case(Batch((Request(0, 2, (2**30, 3)),), 1))
    found = SGLANG.inputs["req_to_token"].hold(Inputs(case))
    assert isinstance(found, Ints) and found.values[1].tolist() == [2**30, 3]
    case = Case(Batch((Request(1, 2, (2**30, 3)),), 2))
    inputs = Inputs(case)
    answer = inputs.call(OPERATIONS["slot_mapping"].oracle)
    assert SGLANG.outputs_of("slot_mapping")["out_cache_loc"].expect(answer, inputs) == [ANY, 6]


def tensors(case: Case, as_list: bool) -> dict[str, Any]:
    """Return what a dump of a step holds: every input that its mode has."""
    mode = forward_mode(case.batch)
    names = ["req_pool_indices", "req_to_token", "page_size", "forward_mode", "seq_lens"]
    names += {"extend": ["extend_seq_lens"], "verify": ["draft_token_num"], "decode": []}[mode]
    found: dict[str, Any] = {}
    for name in names:
        held = SGLANG.inputs[name].hold(Inputs(case))
        found[name] = held
        if isinstance(held, Ints) and as_list:
            found[name] = held.values.tolist() if len(case.batch.requests) % 2 else held.values
        elif isinstance(held, Ints):
            found[name] = torch.from_numpy(held.values).to(getattr(torch, held.dtype))
    return found


def test_two_hundred_cases_come_back_as_they_were() -> None:
    domain, modes, seen = Domain(reserved_blocks=1, max_requests=40), set(), 0
    for case in seeded_cases(11, domain, ("row_index",)):
        if -1 in (case.layout.row_index or ()):
            continue
        back = case_from_tensors("sglang", **tensors(case, bool(seen % 2)))
        mode = forward_mode(case.batch)
        assert len(back.batch.requests) == len(case.batch.requests)
        assert back.layout.num_padding_requests == case.layout.num_padding_requests
        for request, found in zip(case.batch.requests, back.batch.requests, strict=True):
            assert (found.context_len, found.query_len) == (request.context_len, request.query_len)
            assert found.block_ids == request.block_ids[: case.batch.num_live_blocks(request)]
            assert found.phase == ("prefill" if mode == "extend" else "decode")
        modes.add(mode)
        seen += 1
        if seen == 200:
            break
    assert modes == {"extend", "decode", "verify"}


def test_a_mixed_batch_keeps_the_phases_it_is_told() -> None:
    dump = tensors(MIXED, as_list=False) | {"is_prefill": [True, True, False], "num_tokens_padded": 5}
    back = case_from_tensors("sglang", **dump)
    assert [request.phase for request in back.batch.requests] == ["prefill", "prefill", "decode"]
    assert back.num_tokens_padded == 5


POOL = [[0, 0, 0], [8, 9, 4]]


@pytest.mark.parametrize(
    ("dump", "rule"),
    [
        ({"forward_mode": "mixed"}, r"forward_mode = 'mixed', must be one of 'extend', 'decode', 'verify'"),
        ({"seq_lens": None}, r"seq_lens = None, must be given for decode"),
        ({"seq_lens": [1]}, r"seq_lens\[0\] = 1, must be >= 2"),
        ({"seq_lens": [4]}, r"req_to_token\[1\]: number of columns = 3, must be >= 4"),
        ({"req_pool_indices": [2]}, r"req_pool_indices = 2, must be < 2, the rows of req_to_token"),
        ({"req_pool_indices": [1.5]}, r"req_pool_indices\[0\] = 1.5, must be an integer"),
        (
            {"req_pool_indices": [0, 1], "seq_lens": [1, 3]},
            r"req_pool_indices\[0\] = 0, must be >= 1: a live request follows",
        ),
        ({"req_to_token": [[0] * 3, [8, 8, 4]]}, r"req_to_token\[1\]\[1\] = 8, must be 9: the page goes on"),
        ({"req_to_token": [[0] * 3, [7, 8, 4]]}, r"req_to_token\[1\]\[0\] = 7, must be a multiple of page_s"),
        ({"req_to_token": [[0] * 3, [0, 1, 4]]}, r"req_to_token\[1\]\[0\] = 0, must be >= 2: page 0 is"),
        ({"forward_mode": "verify"}, r"draft_token_num = None, must be given for verify"),
        ({"forward_mode": "extend"}, r"extend_seq_lens = None, must be given for extend"),
        (
            {"forward_mode": "extend", "extend_seq_lens": [2], "extend_prefix_lens": [2]},
            r"seq_lens\[0\] = 3, must be extend_prefix_lens \+ extend_seq_lens",
        ),
        ({"slots": [1]}, r"tensor = 'slots', must be a tensor that sglang reads: req_pool_indices"),
    ],
)
def test_a_dump_that_cannot_be_a_step_is_refused(dump: dict[str, Any], rule: str) -> None:
    good = {"req_pool_indices": [1], "req_to_token": POOL, "page_size": 2, "forward_mode": "decode"}
    good["seq_lens"] = np.array([3])
    assert case_from_tensors("sglang", **good).batch.requests[0].block_ids == (4, 2)
    with pytest.raises(ValueError, match=rule):
        case_from_tensors("sglang", **(good | dump))


def offsets(lens: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.pad(torch.cumsum(lens, 0), (1, 0))


def rows_and_positions(prefix: torch.Tensor, lens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return request and position of each live token."""
    lens = lens.long()
    b = torch.repeat_interleave(torch.arange(lens.numel(), device=lens.device), lens)
    i = torch.arange(b.numel(), device=lens.device) - offsets(lens)[b]
    return b, prefix.long()[b] + i


def positions_of_extend(extend_prefix_lens: Any, extend_seq_lens: Any, positions: Any) -> None:
    _, found = rows_and_positions(extend_prefix_lens, extend_seq_lens)
    positions.zero_()
    positions[: found.numel()] = found


def positions_of_decode(seq_lens: Any, num_token_non_padded: int, positions: Any) -> None:
    positions.zero_()
    positions[:num_token_non_padded] = seq_lens[:num_token_non_padded] - 1


def positions_of_every_mode(
    forward_mode: str,
    draft_token_num: int,
    num_token_non_padded: int,
    seq_lens: Any,
    extend_seq_lens: Any,
    positions: Any,
) -> None:
    lens = extend_seq_lens
    cached = seq_lens if forward_mode == "verify" else seq_lens - lens
    _, found = rows_and_positions(cached, lens)
    assert found.numel() == num_token_non_padded
    positions.zero_()
    positions[: found.numel()] = found


def layout_of_step(
    forward_mode: str,
    draft_token_num: int,
    seq_lens: Any,
    extend_prefix_lens: Any,
    extend_seq_lens: Any,
    extend_start_loc: Any,
    qo_indptr: Any,
    cu_seqlens_q: Any,
    cu_seqlens_k: Any,
    kv_indptr: Any,
    token_to_batch_idx: Any,
) -> None:
    starts = offsets(extend_seq_lens)
    extend_start_loc.copy_(starts[:-1])
    qo_indptr.copy_(starts)
    cu_seqlens_q.copy_(starts)
    cu_seqlens_k.copy_(offsets(seq_lens + draft_token_num))
    kv_indptr.copy_(offsets(extend_prefix_lens if forward_mode == "extend" else seq_lens))
    b, _ = rows_and_positions(extend_prefix_lens, extend_seq_lens)
    token_to_batch_idx[: b.numel()] = b.int()


def slots_by_lookup(
    req_to_token: Any,
    req_pool_indices: Any,
    extend_prefix_lens: Any,
    extend_seq_lens: Any,
    out_cache_loc: Any,
) -> None:
    b, position = rows_and_positions(extend_prefix_lens, extend_seq_lens)
    out_cache_loc.zero_()
    out_cache_loc[: b.numel()] = req_to_token[req_pool_indices[b], position].long()


def slots_by_page(
    page_table: Any, page_size: int, extend_prefix_lens: Any, extend_seq_lens: Any, out_cache_loc: Any
) -> None:
    b, position = rows_and_positions(extend_prefix_lens, extend_seq_lens)
    out_cache_loc.zero_()
    page = page_table[b, position // page_size].long()
    out_cache_loc[: b.numel()] = page * page_size + position % page_size


def windows_of_extend(extend_prefix_lens: Any, extend_seq_lens: Any, ks: Any, ke: Any) -> None:
    b, position = rows_and_positions(extend_prefix_lens, extend_seq_lens)
    start = offsets(extend_prefix_lens + extend_seq_lens)[b]
    ks[: b.numel()] = start.int()
    ke[: b.numel()] = (start + position + 1).int()


def selected_in_pool(
    req_to_token: Any,
    req_pool_indices: Any,
    extend_prefix_lens: Any,
    extend_seq_lens: Any,
    topk_indices: Any,
    result: Any,
) -> None:
    """The slots of selected tokens without a page table of the step: those of the pool."""
    b, _ = rows_and_positions(extend_prefix_lens, extend_seq_lens)
    chosen = topk_indices[: b.numel()]
    result.fill_(-1)
    found = req_to_token[req_pool_indices[b][:, None], chosen.clamp(min=0).long()]
    result.view(topk_indices.shape)[: b.numel()] = torch.where(chosen >= 0, found, -1)


def chunks_of(
    extend_prefix_lens: Any,
    num_prefix_chunks: int,
    prefix_chunk_len: int,
    prefix_chunk_starts: Any,
    prefix_chunk_seq_lens: Any,
) -> None:
    for j in range(num_prefix_chunks):
        part = slice(j * extend_prefix_lens.numel(), (j + 1) * extend_prefix_lens.numel())
        prefix_chunk_starts[part] = j * prefix_chunk_len
        left = extend_prefix_lens - j * prefix_chunk_len
        prefix_chunk_seq_lens[part] = left.clamp(0, prefix_chunk_len)


def verdict_on(function: Any, operation: str, domain: Domain | None = None) -> Verdict:
    binding = binding_of(function, operation, "sglang", domain)
    return search(
        binding, DEVICE, Budget(examples=60), checks=checks_for(binding), first=fixture_cases(binding)
    )


@pytest.mark.parametrize(
    ("function", "operation", "domain"),
    [
        (positions_of_extend, "position_ids", None),
        (positions_of_decode, "position_ids", DECODES),
        (positions_of_every_mode, "position_ids", None),
        (layout_of_step, "sequence_layout", None),
        (slots_by_lookup, "slot_mapping", None),
        (slots_by_page, "slot_mapping", None),
        (windows_of_extend, "causal_windows", None),
        (selected_in_pool, "topk_to_slots", None),
        (chunks_of, "chunked_context", None),
    ],
)
def test_a_right_implementation_passes_every_check(
    function: Any, operation: str, domain: Domain | None
) -> None:
    verdict = verdict_on(function, operation, domain)
    assert verdict.ok, verdict.failure
    assert verdict.cases >= 60


def loop_index_as_row(
    req_to_token: Any,
    req_pool_indices: Any,
    extend_prefix_lens: Any,
    extend_seq_lens: Any,
    out_cache_loc: Any,
) -> None:
    """sglang#26534: the index of the loop over requests stands for the pool row."""
    row = torch.arange(req_pool_indices.numel(), device=req_pool_indices.device)
    slots_by_lookup(req_to_token, row, extend_prefix_lens, extend_seq_lens, out_cache_loc)


def padding_kept(
    req_to_token: Any,
    req_pool_indices: Any,
    extend_prefix_lens: Any,
    extend_seq_lens: Any,
    out_cache_loc: Any,
) -> None:
    """sglang#24743: padded tokens keep the slots of the previous replay."""
    b, position = rows_and_positions(extend_prefix_lens, extend_seq_lens)
    out_cache_loc[: b.numel()] = req_to_token[req_pool_indices[b], position].long()


def minus_one_for_padding(
    req_to_token: Any,
    req_pool_indices: Any,
    extend_prefix_lens: Any,
    extend_seq_lens: Any,
    out_cache_loc: Any,
) -> None:
    """Another engine's padding: -1 does not skip in SGLang."""
    out_cache_loc.fill_(-1)
    padding_kept(req_to_token, req_pool_indices, extend_prefix_lens, extend_seq_lens, out_cache_loc)


def new_tokens_counted_twice(seq_lens: Any, kv_indptr: Any) -> None:
    """sglang#26651: kv_indptr counts the new tokens, which an extend hands over apart."""
    kv_indptr.copy_(offsets(seq_lens))


def start_not_added(extend_prefix_lens: Any, extend_seq_lens: Any, ks: Any, ke: Any) -> None:
    """sglang#20606: windows lack the start of their request's keys."""
    b, position = rows_and_positions(extend_prefix_lens, extend_seq_lens)
    ks[: b.numel()] = 0
    ke[: b.numel()] = (position + 1).int()


def selected_of_the_first_requests(page_table_1: Any, topk_indices: Any, result: Any) -> None:
    """What is right for a decode, on an extend: rows of the table are requests there, not tokens."""
    row = torch.arange(topk_indices.shape[0], device=topk_indices.device).clamp(max=page_table_1.shape[0] - 1)
    if topk_indices.numel() and page_table_1.numel():
        found = page_table_1[row[:, None], topk_indices.clamp(min=0).long()]
        result.view(topk_indices.shape).copy_(torch.where(topk_indices >= 0, found, -1))
    else:
        result.fill_(-1)


def none_read_as_the_first(
    req_to_token: Any,
    req_pool_indices: Any,
    extend_prefix_lens: Any,
    extend_seq_lens: Any,
    topk_indices: Any,
    result: Any,
) -> None:
    """What selects nothing reads position 0."""
    chosen = topk_indices.clamp(min=0)
    selected_in_pool(req_to_token, req_pool_indices, extend_prefix_lens, extend_seq_lens, chosen, result)


def share_of_those_with_a_prefix(
    extend_prefix_lens: Any, extend_prefix_lens_cpu: Any, chunk_capacity: int
) -> tuple[Any, ...]:
    """Another engine's chunks: the room is shared among the requests that have a prefix."""
    count = int(torch.count_nonzero(extend_prefix_lens_cpu))
    length = chunk_capacity // max(count, 1)
    num_chunks = -(-int(extend_prefix_lens_cpu.max()) // length) if count else 0
    return chunks_like_sglang(extend_prefix_lens, num_chunks, length)


def nothing_left_of_a_negative_number(
    extend_prefix_lens: Any, num_prefix_chunks: int, prefix_chunk_len: int
) -> tuple[Any, ...]:
    """A chunk behind the prefix has a negative length."""
    return chunks_like_sglang(extend_prefix_lens, num_prefix_chunks, prefix_chunk_len, least=None)


def chunks_like_sglang(prefixes: Any, num_chunks: int, length: int, least: int | None = 0) -> tuple[Any, ...]:
    starts = torch.arange(num_chunks, device=prefixes.device)[:, None] * length
    lens = (prefixes - starts).clamp(min=least, max=length)
    sums = torch.nn.functional.pad(lens.cumsum(1), (1, 0))
    longest = torch.nn.functional.pad(lens, (0, 1)).amax(1)
    found = (starts.expand_as(lens), lens, sums, lens.sum(1), longest)
    return tuple(part.flatten().int() for part in found)


@pytest.mark.parametrize(
    ("function", "operation", "check", "size"),
    [
        (selected_of_the_first_requests, "topk_to_slots", "agrees", 2),
        (none_read_as_the_first, "topk_to_slots", "agrees", 1),
        (share_of_those_with_a_prefix, "chunked_context", "agrees", 2),
        (nothing_left_of_a_negative_number, "chunked_context", "agrees", 2),
        (loop_index_as_row, "slot_mapping", "agrees", 1),
        (padding_kept, "slot_mapping", "writes_everything", 1),
        (minus_one_for_padding, "slot_mapping", "agrees", 1),
        (new_tokens_counted_twice, "sequence_layout", "agrees", 1),
        (start_not_added, "causal_windows", "agrees", 2),
    ],
)
def test_a_bug_that_was_shipped_is_caught(function: Any, operation: str, check: str, size: int) -> None:
    verdict = verdict_on(function, operation)
    assert verdict.failure is not None
    assert verdict.failure.finding.check == check
    assert len(verdict.failure.case.batch.requests) <= size


def test_the_examples_of_the_page_run() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    known: dict[str, Any] = {"__name__": "page"}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), known)
    assert known["verdict"].ok
    assert known["case"].batch.requests[0].block_ids == (4, 2)


def test_the_page_names_every_input_and_output() -> None:
    text = PAGE.read_text()
    for name in {*SGLANG.inputs, *(name for _, name in SGLANG.outputs)}:
        assert f"`{name}`" in text, name

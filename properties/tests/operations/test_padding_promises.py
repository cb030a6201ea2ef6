"""Padding is held to what is promised of it."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import pytest
import torch

import cumae
from cumae.oracle import Batch, Case, Layout, Options, Request
from cumae.properties.cases.domain import Domain
from cumae.properties.checks import CHECKS, Trial
from cumae.properties.operations.binding import binding_of
from cumae.properties.operations.items import is_padding
from cumae.properties.operations.targets import load_function
from cumae.properties.running.device import prepare
from cumae.properties.tests.functions.promised import positions, positions_and_zeros

DEVICE = prepare("auto")


@pytest.mark.parametrize(
    ("function", "padding", "ok"),
    [
        (positions, "written", False),
        (positions, "untouched", True),
        (positions, "none", True),
        (positions, "any", True),
        (positions_and_zeros, "any", True),
        (positions_and_zeros, "written", True),
        (positions_and_zeros, "untouched", False),
        (positions_and_zeros, "none", True),
    ],
)
def test_padding_is_what_is_promised(function: Callable[..., Any], padding: Any, ok: bool) -> None:
    domain = Domain(captured=False, padding=padding)
    verdict = cumae.check(function, "position_ids", domain=domain, examples=20, save_to=None)
    assert verdict.ok == ok, verdict.failure
    if verdict.failure is not None:
        assert verdict.failure.finding.check == "writes_everything"


def test_positions_of_vllm_may_leave_padding_alone() -> None:
    def launch(query_start_loc: Any, num_computed_tokens: Any, positions: Any) -> None:
        starts = query_start_loc.tolist()
        for b, context_len in enumerate(num_computed_tokens.tolist()):
            length = starts[b + 1] - starts[b]
            positions[starts[b] : starts[b + 1]] = torch.arange(context_len, context_len + length)

    domain = Domain(captured=False, padding="untouched")
    verdict = cumae.check(launch, "position_ids", dialect="vllm", domain=domain, examples=20, save_to=None)
    assert verdict.ok, verdict.failure


def _live_outputs(operation: str) -> Callable[..., Any]:
    """Return the launcher of an operation that puts back what stood on padding."""
    kernel = load_function(cumae.OPERATIONS[operation].kernels[0])
    binding = binding_of(kernel, operation)

    @wraps(kernel)
    def launch(**arguments: Any) -> None:
        before = {name: arguments[name].clone() for name in binding.outputs}
        kernel(**arguments)
        for name, was in before.items():
            flat = arguments[name].view(-1)
            padding = torch.tensor(is_padding(binding.forms[name], _CASE, flat.numel()))
            flat[padding] = was.view(-1)[padding]

    return launch


_CASE = Case(
    Batch((Request(3, 2, (4, 1)), Request(5, 1, (7, 2), "decode")), 4),
    Layout(num_padding_tokens=2, num_padding_requests=1),
    Options.of(topk=3),
)


@pytest.mark.parametrize(
    "operation",
    ["sequence_layout", "slot_mapping", "causal_windows", "topk_to_slots", "compact_topk_slots",
     "chunked_context", "grouped_topk"],
)  # fmt: skip
def test_every_axis_knows_its_padding(operation: str) -> None:
    domain = Domain(captured=False, padding="untouched")
    for check in ("agrees", "writes_everything"):
        trial = Trial(binding_of(_live_outputs(operation), operation, domain=domain), _CASE, DEVICE)
        assert CHECKS[check](trial) is None
    kernel = load_function(cumae.OPERATIONS[operation].kernels[0])
    trial = Trial(binding_of(kernel, operation, domain=domain), _CASE, DEVICE)
    found = CHECKS["agrees"](trial) or CHECKS["writes_everything"](trial)
    assert found is not None and "must keep what it held" in found.message


def table_of_whole_rows(
    req_to_token: Any, req_pool_indices: Any, max_seq_pages: int, page_size: int, page_table: Any
) -> None:
    """Write garbage behind the pages that hold keys, and to padded rows."""
    firsts = req_to_token[req_pool_indices.long()][:, : max_seq_pages * page_size : page_size]
    page_table[:, : firsts.shape[1]] = firsts // page_size


@pytest.mark.parametrize(("keeps", "ok"), [(True, False), (False, True)])
def test_columns_behind_a_requests_pages_may_hold_anything(keeps: bool, ok: bool) -> None:
    domain = Domain(captured=False, keeps=keeps, padding="any", strided=False)
    given: dict[str, Any] = {"dialect": "sglang", "domain": domain, "examples": 20, "save_to": None}
    verdict = cumae.check(table_of_whole_rows, "page_table", **given)
    assert verdict.ok == ok, verdict.failure
    if verdict.failure is not None:
        assert verdict.failure.finding.expected != verdict.failure.finding.actual


def _to_pages(
    key: Any,
    value: Any,
    key_cache: Any,
    value_cache: Any,
    slot_mapping: Any,
    block_size: int,
    num_kv_heads: int,
) -> None:
    """Write every row, those without a slot to the first slot of the null block."""
    slots = slot_mapping.clamp(min=0)
    for rows, cache in ((key, key_cache), (value, value_cache)):
        pages = cache.view(len(cache), block_size, num_kv_heads, rows.shape[-1])
        pages[slots // block_size, slots % block_size] = rows[: len(slots)]


@pytest.mark.parametrize(("keeps", "ok"), [(True, False), (False, True)])
def test_rows_without_a_slot_may_land_in_the_null_block(keeps: bool, ok: bool) -> None:
    """Garbage rows differ from what a cache holds, else nobody could see them there."""
    promises: dict[str, Any] = {"strided": False, "captured": False, "head_format": ("bf16",)}
    domain = Domain(keeps=keeps, page_order=("NHD",), **promises)
    verdict = cumae.check(_to_pages, "page_write", dialect="vllm", domain=domain, examples=20, save_to=None)
    assert verdict.ok == ok, verdict.failure
    if verdict.failure is not None:
        assert "must keep what it held" in verdict.failure.finding.message


def _rows_to_cache(kv_c: Any, k_pe: Any, slot_mapping: Any, kv_cache: Any) -> None:
    rows = kv_cache.view(-1, kv_cache.shape[-1])
    slots = slot_mapping.clamp(min=0)
    rows[slots, : kv_c.shape[1]] = kv_c[: len(slots)]
    rows[slots, kv_c.shape[1] :] = k_pe[: len(slots)]


def test_latent_rows_without_a_slot_are_seen_too() -> None:
    promises: dict[str, Any] = {"strided": False, "captured": False, "row_format": ("bf16",)}
    domain = Domain(min_requests=1, min_tokens=1, **promises)
    verdict = cumae.check(
        _rows_to_cache, "cache_write", dialect="vllm", domain=domain, examples=20, save_to=None
    )
    assert verdict.failure is not None
    assert "must keep what it held" in verdict.failure.finding.message


def test_a_promise_is_named_for_what_is_nobodys() -> None:
    """Of vLLM's table the columns behind a request's blocks keep their values, unless nothing is promised."""

    def whole(input_block_table: torch.Tensor) -> None:
        input_block_table.fill_(0)

    case = Case(Batch((Request(0, 1, (0,)), Request(0, 5, (1, 2, 3))), 2))
    messages = []
    promises: list[dict[str, Any]] = [{"padding": one} for one in ("written", "untouched", "any", "none")]
    for promise in (*promises, {"keeps": False}):
        domain = Domain(captured=False, **promise)
        binding = binding_of(whole, "page_table", dialect="vllm", domain=domain)
        found = CHECKS["writes_everything"](Trial(binding, case, DEVICE))
        messages.append(None if found is None else found.message)
    told = "was written and must keep what it held; Domain(keeps=False) leaves it open"
    assert messages == [*[f"`input_block_table[1]` {told}"] * 4, None]


def test_where_some_padding_is_written_any_is_the_promise_that_leaves_it_open() -> None:
    def writes_lens(swa_indices: torch.Tensor, swa_lens: torch.Tensor) -> None:
        swa_indices[0] = torch.tensor([0, -1, -1, -1])
        swa_lens.copy_(torch.tensor([1, 0]))

    case = Case(Batch((Request(0, 1, (0,)),), 2), Layout(num_padding_tokens=1))
    messages = []
    for promise in ("written", "untouched", "any"):
        domain = Domain(padding=promise)
        binding = binding_of(writes_lens, "window_slots", dialect="vllm", domain=domain)
        found = CHECKS["writes_everything"](Trial(binding, case, DEVICE))
        messages.append(None if found is None else found.message)
    told = "Domain(padding='any') leaves it open"
    assert messages == [
        f"`swa_indices[4]` was never written; {told}",
        f"`swa_lens[1]` was written and must keep what it held; {told}",
        None,
    ]

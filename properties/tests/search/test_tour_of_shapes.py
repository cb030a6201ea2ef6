"""Facts about the tour of a search: shapes that a function names, and small types of counts."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from cumae.fixtures.correct.cumae import slot_mapping
from cumae.fixtures.correct.drafts import draft_steps
from cumae.fixtures.correct.page_rows import page_write
from cumae.fixtures.correct.router import grouped_topk
from cumae.oracle import OperationName
from cumae.properties.cases.domain import Domain
from cumae.properties.operations.binding import binding_of
from cumae.properties.running.device import prepare
from cumae.properties.search.budget import Budget
from cumae.properties.search.loop import search

DEVICE = prepare("auto")
Tensor = torch.Tensor
TILE, WIDTH, EXPERTS, LANES = 48, 112, 288, 32


def wrong_in_blocks_of_a_named_size(
    token_to_request: Tensor,
    position_ids: Tensor,
    row_index: Tensor,
    block_table: Tensor,
    kernel_block_size: int,
    num_slots: int,
    world: int,
    rank: int,
    interleave: int,
) -> Tensor:
    """Takes one block too few in blocks of 48 tokens."""
    more = num_slots, world, rank, interleave
    slots = slot_mapping(token_to_request, position_ids, row_index, block_table, kernel_block_size, *more)
    return slots - kernel_block_size * (slots >= 0) if kernel_block_size == TILE else slots


def wrong_for_heads_of_a_named_width(
    new_keys: Tensor,
    new_values: Tensor,
    slot_mapping: Tensor,
    pages: Tensor,
    block_size: int,
    page_order: str,
    head_format: str,
    key_scale: float,
    value_scale: float,
) -> None:
    """Swaps keys and values of 112 numbers."""
    new = (new_keys, new_values)
    if new_keys.shape[2] == new_values.shape[2] == WIDTH:
        new = (new_values, new_keys)
    page_write(*new, slot_mapping, pages, block_size, page_order, head_format, key_scale, value_scale)


def wrong_beyond_a_tile_of_heads(
    new_keys: Tensor,
    new_values: Tensor,
    slot_mapping: Tensor,
    pages: Tensor,
    block_size: int,
    page_order: str,
    head_format: str,
    key_scale: float,
    value_scale: float,
) -> None:
    """Writes one head for all that are beyond the first so many."""
    heads = torch.arange(new_keys.shape[1], device=new_keys.device).clamp(max=int("64") - 1)
    new = (new_keys[:, heads], new_values[:, heads])
    page_write(*new, slot_mapping, pages, block_size, page_order, head_format, key_scale, value_scale)


def wrong_of_a_named_number_of_experts(
    logits: Tensor,
    bias: Tensor,
    num_groups: int,
    topk_group: int,
    top_k: int,
    scaling_factor: float,
    renormalize: bool,
) -> tuple[Tensor, Tensor]:
    """Drops the last tile of 288 experts."""
    if logits.shape[1] == EXPERTS:
        logits = logits.clone()
        logits[:, -LANES:] = -torch.inf
    return grouped_topk(logits, bias, num_groups, topk_group, top_k, scaling_factor, renormalize)


def wrong_where_all_kept_experts_are_taken(
    logits: Tensor,
    bias: Tensor,
    num_groups: int,
    topk_group: int,
    top_k: int,
    scaling_factor: float,
    renormalize: bool,
) -> tuple[Tensor, Tensor]:
    """Loses the last choice if there is no other one behind it."""
    ids, weights = grouped_topk(logits, bias, num_groups, topk_group, top_k, scaling_factor, renormalize)
    if 1 < num_groups and top_k == logits.shape[1] // num_groups * topk_group:
        weights = weights.clone()
        weights[:, -1] = 0
    return ids, weights


def wrong_beyond_int8(
    cu_seqlens_q: Tensor,
    num_drafts: Tensor,
    num_requests: int,
    logits_indices: Tensor,
    target_logits_indices: Tensor,
    bonus_logits_indices: Tensor,
    cu_num_draft_tokens: Tensor,
) -> None:
    """Keeps the drafts of a request in a byte."""
    narrow = num_drafts.to(torch.uint8).to(num_drafts.dtype)
    lists = logits_indices, target_logits_indices, bonus_logits_indices
    draft_steps(cu_seqlens_q, narrow, num_requests, *lists, cu_num_draft_tokens)


@pytest.mark.parametrize(
    ("function", "operation"),
    [
        (wrong_in_blocks_of_a_named_size, "slot_mapping"),
        (wrong_for_heads_of_a_named_width, "page_write"),
        (wrong_beyond_a_tile_of_heads, "page_write"),
        (wrong_of_a_named_number_of_experts, "grouped_topk"),
        (wrong_where_all_kept_experts_are_taken, "grouped_topk"),
        (wrong_beyond_int8, "draft_steps"),
    ],
)
def test_the_default_search_finds_what_is_wrong_in_a_shape(
    function: Callable[..., Any], operation: OperationName
) -> None:
    binding = binding_of(function, operation, domain=Domain(captured=False))
    verdict = search(binding, DEVICE, Budget(examples=200), checks=["agrees"], reduce=False)
    assert verdict.failure is not None
    assert verdict.failure.finding.check == "agrees"

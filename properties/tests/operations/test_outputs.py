"""Outputs and their axes: one record whoever names an output, and one row for everything an axis says."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

import cumae
from cumae.fixtures.correct import selections
from cumae.oracle import Batch, Case, Layout, OperationName, Options, Request
from cumae.properties.checks import Trial
from cumae.properties.dialects import CUMAE, DIALECTS, SGLANG, VLLM, Dialect, Output
from cumae.properties.operations import OPERATIONS
from cumae.properties.operations.axes import AXES
from cumae.properties.operations.binding import binding_of
from cumae.properties.operations.items import elements_each
from cumae.properties.operations.outputs import accepted_shapes, outputs_of, shape_of, strides_of
from cumae.properties.running.device import prepare
from cumae.properties.tests.operations.test_own_operation import LENS

DEVICE = prepare("auto")
CASE = Case(
    Batch((Request(3, 2, (4, 1)), Request(5, 1, (7, 2), "decode")), 4),
    Layout(num_padding_tokens=2, num_padding_requests=1),
    Options.of(topk=3),
)
EVERY = [
    (dialect, operation, name)
    for dialect, known in DIALECTS.items()
    for operation in OPERATIONS
    for name in outputs_of(OPERATIONS[operation], known)
]


def test_every_axis_is_that_of_an_output_and_every_output_has_one() -> None:
    used = {outputs_of(OPERATIONS[o], DIALECTS[d])[name].axis for d, o, name in EVERY}
    assert used == set(AXES)


@pytest.mark.parametrize(("dialect", "operation", "name"), EVERY)
def test_an_axis_tells_no_more_elements_than_its_outputs_have(
    dialect: str, operation: str, name: str
) -> None:
    output = outputs_of(OPERATIONS[operation], DIALECTS[dialect])[name]
    axis, shape = AXES[output.axis], shape_of(output, CASE)
    rows = shape[: -1 if output.is_rows else None]
    count = int(torch.tensor(rows).prod())
    if axis.extent is not None and not axis.in_chunks:
        assert axis.extent(CASE).num_padded * elements_each(output, CASE) <= count
    if axis.items is not None and axis.extent is not None:
        items = sum(axis.items(request, CASE) for request in CASE.batch.requests)
        assert items + bool(axis.between) == axis.extent(CASE).num_live


def test_an_output_of_an_engine_takes_over_what_it_does_not_say() -> None:
    own, theirs = (outputs_of(OPERATIONS["compact_topk_slots"], d) for d in (CUMAE, VLLM))
    known, named = own["compact_slots"], theirs["out"]
    assert (named.dtype, named.axis, named.unordered) == (known.dtype, known.axis, True)
    assert (named.follows, named.is_captured) == ("compact_slots", False)
    assert named.rule == OPERATIONS["compact_topk_slots"].rule


def test_features_that_a_length_shows_are_taken_over_with_the_shape_alone() -> None:
    slots = OPERATIONS["slot_mapping"]
    assert outputs_of(slots, VLLM)["slot_mapping"].carries == ("num_padding_slots",)
    assert outputs_of(slots, SGLANG)["out_cache_loc"].carries == ()


def dialect_with(output: Output) -> Dialect:
    return replace(VLLM, outputs={"slot_mapping": (output,)})


@pytest.mark.parametrize(
    ("output", "rule"),
    [
        (Output("mine", axis="token"), "mine.dtype = '', must be given"),
        (Output("mine", "int32", "whatever"), "mine.shape = None, must be given: axis 'whatever' is none"),
        (Output("mine", follows="slots"), "mine.follows = 'slots', must be an output of slot_mapping: "),
    ],
)
def test_an_output_that_says_too_little_is_refused_when_it_is_bound(output: Output, rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        binding_of(lambda mine: None, "slot_mapping", dialect_with(output))
    own = replace(LENS, outputs=(replace(output, follows=""),))
    if not output.follows:
        with pytest.raises(ValueError, match=rule):
            binding_of(lambda mine: None, own)


def test_an_output_of_ones_own_is_dense_in_every_dimension() -> None:
    output = Output("cube", "int32", "token", shape=lambda case: (case.num_tokens_padded, 2, 3))
    assert strides_of(output, CASE) == (6, 3, 1)

    def tell(num_tokens_padded: int) -> Any:
        return Told(list(range(6 * num_tokens_padded)))

    def launch(cube: torch.Tensor) -> None:
        cube.copy_(torch.arange(cube.numel()).reshape(cube.shape))

    operation = cumae.Operation("cubes", tell, (output,))
    trial = Trial(binding_of(launch, operation), CASE, DEVICE)
    assert trial.first.outputs["cube"].ravel().tolist() == list(range(30))


def as_rows(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of topk_to_slots or compact_topk_slots whose answer has a row for each token."""

    def call(
        token_to_request: torch.Tensor,
        selected_positions: torch.Tensor,
        block_table: torch.Tensor,
        block_size: int,
        world: int,
        rank: int,
        interleave: int,
        workspace_ids: torch.Tensor | None,
        workspace_starts: torch.Tensor | None,
    ) -> Any:
        tokens = (token_to_request, selected_positions, block_table)
        answer = function(*tokens, block_size, world, rank, interleave, workspace_ids, workspace_starts)
        if isinstance(answer, torch.Tensor):
            return answer.reshape(selected_positions.shape)
        return answer[0].reshape(selected_positions.shape), answer[1]

    return call


def chunks_as_rows(
    context_lens: torch.Tensor,
    is_prefill: torch.Tensor,
    workspace_tokens: int,
    block_size: int,
    num_with_context: int,
    max_context_len: int,
    key_scope: str,
) -> tuple[torch.Tensor, ...]:
    numbers = (workspace_tokens, block_size, num_with_context, max_context_len, key_scope)
    chunks = selections.chunked_context(context_lens, is_prefill, *numbers)
    count, num_requests = len(chunks.chunk_totals), len(context_lens)
    starts, lens, sums = (
        part.reshape(count, num_requests + more) for part, more in zip(chunks[:3], (0, 0, 1), strict=True)
    )
    return starts, lens, sums, *chunks[3:]


@pytest.mark.parametrize(
    ("function", "operation"),
    [
        (as_rows(selections.topk_to_slots), "topk_to_slots"),
        (as_rows(selections.compact_topk_slots), "compact_topk_slots"),
        (chunks_as_rows, "chunked_context"),
    ],
)
def test_a_returned_output_may_have_a_row_for_each_item(
    function: Callable[..., Any], operation: OperationName
) -> None:
    verdict = cumae.check(function, operation, device=DEVICE, examples=20, save_to=None)
    assert verdict.ok, verdict.failure


def test_bounds_in_pairs_may_be_returned_as_pairs() -> None:
    windows = outputs_of(OPERATIONS["causal_windows"], CUMAE)["windows"]
    assert accepted_shapes(windows, CASE) == ((10,), (5, 2))


def test_an_output_with_one_element_for_each_item_has_one_shape() -> None:
    for operation, name in (("position_ids", "position_ids"), ("chunked_context", "chunk_totals")):
        output = outputs_of(OPERATIONS[operation], CUMAE)[name]
        assert len(accepted_shapes(output, CASE)) == 1


def test_rows_of_selected_keys_are_not_columns() -> None:
    def transposed(selected_positions: torch.Tensor) -> torch.Tensor:
        return selected_positions.T.contiguous()

    verdict = cumae.check(transposed, "topk_to_slots", device=DEVICE, examples=20, save_to=None)
    assert verdict.failure is not None
    assert "has shape [2, 0], must have [0] or [0, 2]" in verdict.failure.finding.message


class Told:
    def __init__(self, cube: list[int]) -> None:
        self.cube = cube


def _listed(short_by: int) -> Callable[..., dict[str, torch.Tensor]]:
    """Return a function that lists pages and returns a list without the room behind them."""

    def kv_lists(
        block_table: torch.Tensor,
        row_index: torch.Tensor,
        seq_lens: torch.Tensor,
        num_requests: int,
        block_size: int,
    ) -> dict[str, torch.Tensor]:
        pages: list[int] = []
        ends = [0]
        for b in range(len(seq_lens)):
            held = -(-int(seq_lens[b]) // block_size) if b < num_requests else 0
            pages += block_table[int(row_index[b]), :held].tolist() if held else []
            ends.append(len(pages))
        last = torch.where(seq_lens > 0, (seq_lens - 1) % block_size + 1, 0)
        last[num_requests:] = 0
        cut = pages[: max(len(pages) - short_by, 0)]
        lists = {"kv_indptr": ends, "kv_indices": cut, "kv_last_page_len": last.tolist()}
        return {name: torch.tensor(values, dtype=torch.int32) for name, values in lists.items()}

    return kv_lists


@pytest.mark.parametrize("short_by", [0, 1])
def test_a_returned_list_may_end_with_its_last_value_but_not_before(short_by: int) -> None:
    domain = cumae.Domain(captured=False, rowless_requests=False, missing_blocks=False, window=(0,))
    verdict = cumae.check(_listed(short_by), "kv_indices", domain=domain, examples=60, save_to=None)
    assert verdict.ok == (short_by == 0), cumae.explain(verdict)
    if verdict.failure is not None:
        assert re.search(r"has \d+ elements, must have at least \d+", verdict.failure.finding.message)

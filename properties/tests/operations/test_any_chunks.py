"""A plan of context chunks is right where its parts are each context in order and its chunks fit."""

import re
from collections.abc import Callable
from itertools import islice
from random import Random

import pytest
import torch

import cumae
from cumae.fixtures.correct import plans
from cumae.oracle import AnyChunks, Case, Inputs, any_chunks, chunk_alignment, chunk_faults, workspace_rows
from cumae.properties.cases.seeded import seeded_cases
from cumae.properties.running.device import prepare

prepare("auto")
Part = tuple[int, int, int, int]
CONTEXTS = [5, 0, 9, 3]
WORKSPACE, BLOCK = 8, 4
RIGHT: list[Part] = [(0, 0, 0, 5), (1, 2, 0, 8), (2, 2, 8, 9), (2, 3, 0, 3), (-1, -1, -1, -1)]
"""vLLM's plan for these contexts."""


def faults_of(parts: list[Part], contexts: list[int] | None = None) -> list[str]:
    plan = AnyChunks(*map(list, zip(*parts, strict=True)))
    return [*chunk_faults(plan, CONTEXTS if contexts is None else contexts, WORKSPACE, BLOCK)]


@pytest.mark.parametrize(
    "parts",
    [
        RIGHT,
        RIGHT[:-1],
        [(0, 0, 0, 4), (1, 0, 4, 5), (1, 2, 0, 4), (2, 2, 4, 8), (3, 3, 0, 3), (3, 2, 8, 9)],
        [(0, 2, 0, 8), (1, 0, 0, 5), (1, 3, 0, 3), (2, 2, 8, 9)],
        [(0, 0, 0, 4), (0, 0, 4, 5), (0, 3, 0, 3), (1, 2, 0, 4), (1, 2, 4, 8), (2, 2, 8, 9)],
    ],
    ids=[
        "of vLLM",
        "without a spare entry",
        "cut at each block",
        "in any order of requests",
        "cut in a chunk",
    ],
)
def test_plans_of_several_kinds_are_right(parts: list[Part]) -> None:
    assert faults_of(parts) == []


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({1: (1, 2, 0, 7)}, "part 2: positions [8, 9) of request 2, which must go on at position 7"),
        ({2: (2, 2, 7, 9)}, "part 2: positions [7, 9) of request 2, which must go on at position 8"),
        ({1: (1, 2, 8, 9), 2: (2, 2, 0, 8)}, "part 1: positions [8, 9) of request 2, which must go on at"),
        (
            {1: (1, 2, 0, 6), 2: (2, 2, 6, 9)},
            "part 2: begins at position 6 of request 2, which is no multiple",
        ),
        ({3: (2, 3, 0, 2)}, "request 3: positions [2, 3) are in no part"),
        ({3: (2, 3, 0, 4)}, "part 3: positions [0, 4) of request 3, which has 3 cached tokens"),
        ({4: (2, 1, 0, 0)}, "part 4: positions [0, 0) of request 1 are none"),
        ({4: (2, 4, 0, 1)}, "part 4: request 4 does not exist: there are 4"),
        ({1: (0, 2, 0, 8), 2: (1, 2, 8, 9), 3: (1, 3, 0, 3)}, "chunk 0: 13 rows, and the workspace has 8"),
        ({2: (3, 2, 8, 9)}, "part 2: is in chunk 3, must be in 1 or 2"),
        ({3: (1, 3, 0, 3)}, "part 3: is in chunk 1, must be in 2 or 3"),
        ({0: (1, 0, 0, 5)}, "part 0: is in chunk 1, must be in 0"),
        ({4: (-1, 0, 0, 0)}, "entry 4: (-1, 0, 0, 0), which is behind the last part: must be -1 throughout"),
        ({1: (-1, -1, -1, -1)}, "entry 2: (2, 2, 8, 9), which is behind the last part"),
    ],
)
def test_each_rule_has_its_fault(change: dict[int, Part], told: str) -> None:
    found = faults_of([change.get(j, part) for j, part in enumerate(RIGHT)])
    assert any(fault.startswith(told) for fault in found), found


def test_a_rank_has_rows_for_whole_rounds() -> None:
    plan = AnyChunks([0, 0], [0, 1], [0, 0], [5, 1])
    assert chunk_faults(plan, [5, 1], 12, 8, world=2, interleave=4) == []
    assert chunk_faults(plan, [5, 1], 7, 8, world=2, interleave=4) == [
        "chunk 0: 8 rows, and the workspace has 7"
    ]


def test_a_workspace_of_less_than_a_block_is_refused() -> None:
    with pytest.raises(ValueError, match="workspace_tokens = 3, must be >= 4, a block's rows"):
        any_chunks([1], 3, 4)


def is_right(parts: list[Part], case: Case) -> bool:
    """Walk through the parts position by position, with a list of rows for each chunk and rank."""
    world, share = case.batch.world, case.options.parallel.interleave if case.batch.world > 1 else 1
    cuts = chunk_alignment(case.batch.block_size, world, share)
    left = [list(range(request.context_len)) for request in case.batch.requests]
    chunks: list[list[int]] = []
    for chunk, request, start, stop in parts:
        if chunk == len(chunks):
            chunks.append([])
        if chunk != len(chunks) - 1 or not 0 <= request < len(left) or start % cuts or stop <= start:
            return False
        for position in range(start, stop):
            if not left[request] or left[request].pop(0) != position:
                return False
            if position % (world * share) == 0:
                chunks[-1].extend(range(share))
    return not any(left) and all(len(rows) <= case.workspace_tokens for rows in chunks)


def changed(parts: list[Part], draws: Random) -> list[Part]:
    """Return the parts with one number moved, or a part left out, doubled or moved."""
    found, j = [*parts], draws.randrange(len(parts))
    kind = draws.choice(("number", "number", "left out", "doubled", "moved"))
    if kind == "number":
        part, column = [*found[j]], draws.randrange(4)
        part[column] += draws.choice((-4, -1, 1, 4))
        found[j] = (part[0], part[1], part[2], part[3])
    elif kind == "doubled":
        found.insert(j, found[j])
    else:
        part_moved = found.pop(j)
        if kind == "moved":
            found.insert(draws.randrange(len(found) + 1), part_moved)
    return found


def test_the_judge_says_what_a_walk_through_the_positions_says() -> None:
    draws, said = Random(5), {True: 0, False: 0}
    for case in islice(seeded_cases(8, features=("workspace", "world", "interleave")), 400):
        inputs = Inputs(case)
        parts = [part for part in zip(*inputs.call(any_chunks), strict=True) if part[0] >= 0]
        for tried in [parts, *(changed(parts, draws) for _ in range(5) if parts)]:
            plan = AnyChunks(*map(list, zip(*tried, strict=True))) if tried else AnyChunks([], [], [], [])
            if -1 in plan.part_chunk:
                continue  # the mark of an entry without a part
            sizes = case.workspace_tokens, inputs["chunk_alignment"], case.batch.world, inputs["interleave"]
            right = chunk_faults(plan, inputs["context_lens"], *sizes) == []
            assert right == is_right(tried, case), (case, tried)
            said[right] += 1
    assert min(said.values()) > 100, said


def test_the_rows_of_a_plan_add_up() -> None:
    for stop in range(60):
        assert workspace_rows(stop, 3, 4) * 3 >= stop
        assert workspace_rows(stop + 12, 3, 4) == workspace_rows(stop, 3, 4) + 4


def entries_behind_the_parts_left(
    context_lens_cpu: torch.Tensor,
    workspace_tokens: int,
    chunk_alignment: int,
    part_chunk: torch.Tensor,
    part_request: torch.Tensor,
    part_start: torch.Tensor,
    part_stop: torch.Tensor,
) -> None:
    """Nothing is written behind the parts."""
    outputs = (part_chunk, part_request, part_start, part_stop)
    whole = [torch.empty_like(output) for output in outputs]
    plans.runs_of_neighbours(context_lens_cpu, workspace_tokens, chunk_alignment, 1, 1, *whole)
    used = int((whole[0] >= 0).sum())
    for output, values in zip(outputs, whole, strict=True):
        output[:used] = values[:used]


def one_output_of_four(context_lens_cpu: torch.Tensor, part_chunk: torch.Tensor) -> None:
    part_chunk.fill_(-1)


@pytest.mark.parametrize(
    ("function", "check", "told"),
    [
        (entries_behind_the_parts_left, "writes_everything", r"`part_\w+\[\d+\]` was never written"),
        (one_output_of_four, "agrees", "`part_request` is not among the outputs: .*"),
    ],
)
def test_a_function_that_is_no_plan_is_told(function: Callable[..., None], check: str, told: str) -> None:
    domain = cumae.Domain(captured=False)
    verdict = cumae.check(function, "any_chunks", domain=domain, examples=30, save_to=None)
    assert verdict.failure is not None
    assert verdict.failure.finding.check == check
    assert re.match(told, verdict.failure.finding.message), verdict.failure.finding.message

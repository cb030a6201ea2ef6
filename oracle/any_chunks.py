"""Cached contexts, cut into parts and dealt to chunks of a workspace; a right plan is one of many."""

from collections.abc import Sequence
from math import lcm
from typing import NamedTuple

from cumae.oracle.model.fault import Fault
from cumae.oracle.model.rules import require, require_int


class AnyChunks(NamedTuple):
    """int32 ``part_chunk``, ``part_request``, ``part_start``, ``part_stop`` [parts].

    Part j is the cached positions ``[part_start[j], part_stop[j])`` of request ``part_request[j]``; it is in
    chunk ``part_chunk[j]``. Behind the parts all four are -1 (none). There is room for the most parts that a
    right plan has: ``ceil(context_len / alignment)`` of each request. ``chunk_faults`` judges all four.
    """

    part_chunk: list[int]
    part_request: list[int]
    part_start: list[int]
    part_stop: list[int]


def chunk_alignment(block_size: int, world: int = 1, interleave: int = 1) -> int:
    """Return the number whose multiples may begin a part: a block, which with ranks is whole rounds too.

    In a round, ``interleave`` positions go to each of ``world`` ranks.

    >>> chunk_alignment(16), chunk_alignment(16, world=4, interleave=8), chunk_alignment(4, world=3)
    (16, 32, 12)
    """
    return block_size if world == 1 else lcm(block_size, world * interleave)


def workspace_rows(stop: int, world: int = 1, interleave: int = 1) -> int:
    """Return the rows that positions ``[0, stop)`` take in the workspace of each rank.

    Every rank has room for its share of the last round, whether the round is complete or not.

    >>> [workspace_rows(stop, world=2, interleave=4) for stop in (0, 1, 8, 9)]
    [0, 4, 4, 8]
    """
    return stop if world == 1 else -(-stop // (world * interleave)) * interleave


def any_chunks(
    context_lens: Sequence[int], workspace_tokens: int, block_size: int, world: int = 1, interleave: int = 1
) -> AnyChunks:
    """Return one right plan: the contexts block by block, each block into the chunk before it if it fits.

    ``context_lens`` int [R] in tokens, 0 for padded requests; ``workspace_tokens``: rows that a chunk may
    fill on each of ``world`` ranks. A request has one part at most in a chunk of this plan. With ranks,
    ``chunk_alignment`` positions stand for a block.

    Raises ``ValueError`` if the workspace has no room for a block. Source: vLLM's
    ``plan_mla_context_chunks``.

    >>> plan = any_chunks([5, 0, 9], workspace_tokens=8, block_size=4)
    >>> plan.part_chunk, plan.part_request
    ([0, 1, 2, -1, -1], [0, 2, 2, -1, -1])
    >>> plan.part_start, plan.part_stop
    ([0, 0, 8, -1, -1], [5, 8, 9, -1, -1])
    """
    alignment = chunk_alignment(block_size, world, interleave)
    least = workspace_rows(alignment, world, interleave)
    require_int("workspace_tokens", workspace_tokens, 0)
    require(workspace_tokens >= least, "workspace_tokens", workspace_tokens, f"be >= {least}, a block's rows")
    plan = AnyChunks([], [], [], [])
    chunk, num_rows, room = 0, 0, 0
    for request, context_len in enumerate(context_lens):
        for start in range(0, context_len, alignment):
            stop = min(start + alignment, context_len)
            rows = workspace_rows(stop, world, interleave) - workspace_rows(start, world, interleave)
            if num_rows + rows > workspace_tokens:
                chunk, num_rows = chunk + 1, 0
            num_rows += rows
            room += 1
            if plan.part_chunk[-1:] == [chunk] and plan.part_request[-1] == request:
                plan.part_stop[-1] = stop
                continue
            plan.part_chunk.append(chunk)
            plan.part_request.append(request)
            plan.part_start.append(start)
            plan.part_stop.append(stop)
    unused = [-1] * (room - len(plan.part_chunk))
    return AnyChunks(*(column + unused for column in plan))


def chunk_faults(
    plan: AnyChunks,
    context_lens: Sequence[int],
    workspace_tokens: int,
    alignment: int,
    world: int = 1,
    interleave: int = 1,
) -> list[Fault]:
    """Return a sentence for each fault of a plan, which may have any number of chunks.

    Chunks are counted from 0, and their parts stand in their order. The parts of a request are its positions
    in order, each in one part. A part that does not begin a request begins at a multiple of ``alignment``. No
    part is empty. The rows of a chunk fit ``workspace_tokens``.

    >>> right = AnyChunks([0, 0, 1, -1], [0, 2, 2, -1], [0, 0, 4, -1], [3, 4, 6, -1])
    >>> chunk_faults(right, [3, 0, 6], workspace_tokens=8, alignment=4)
    []
    >>> chunk_faults(right, [3, 1, 6], workspace_tokens=6, alignment=3)  # doctest: +NORMALIZE_WHITESPACE
    ['part 2: begins at position 4 of request 2, which is no multiple of 3',
     'request 1: positions [0, 1) are in no part',
     'chunk 0: 7 rows, and the workspace has 6']
    """
    faults: list[Fault] = []
    reached = [0] * len(context_lens)
    num_rows: list[int] = []
    num_parts = next((j for j, chunk in enumerate(plan.part_chunk) if chunk == -1), len(plan.part_chunk))
    for j, (chunk, request, start, stop) in enumerate(zip(*plan, strict=True)):
        if j >= num_parts:
            if {chunk, request, start, stop} != {-1}:
                told = f"entry {j}: ({chunk}, {request}, {start}, {stop}), which is behind the last part"
                faults.append(Fault(f"{told}: must be -1 throughout"))
            continue
        if chunk == len(num_rows):
            num_rows.append(0)
        if not len(num_rows) - 1 <= chunk < len(num_rows):
            faults.append(Fault(f"part {j}: is in chunk {chunk}, must be in {_next_chunks(len(num_rows))}"))
            continue
        if not 0 <= request < len(context_lens):
            faults.append(Fault(f"part {j}: request {request} does not exist: there are {len(context_lens)}"))
            continue
        held = f"positions [{start}, {stop}) of request {request}"
        if start >= stop:
            faults.append(Fault(f"part {j}: {held} are none"))
            continue
        if start != reached[request]:
            faults.append(Fault(f"part {j}: {held}, which must go on at position {reached[request]}"))
        if stop > context_lens[request]:
            faults.append(Fault(f"part {j}: {held}, which has {context_lens[request]} cached tokens"))
        if start % alignment:
            told = f"begins at position {start} of request {request}, which is no multiple of {alignment}"
            faults.append(Fault(f"part {j}: {told}"))
        reached[request] = max(reached[request], stop)
        rows = workspace_rows(stop, world, interleave) - workspace_rows(start, world, interleave)
        num_rows[chunk] += rows
    for request, (reach, context_len) in enumerate(zip(reached, context_lens, strict=True)):
        if reach < context_len:
            faults.append(Fault(f"request {request}: positions [{reach}, {context_len}) are in no part"))
    for chunk, rows in enumerate(num_rows):
        if rows > workspace_tokens:
            faults.append(Fault(f"chunk {chunk}: {rows} rows, and the workspace has {workspace_tokens}"))
    return faults


def _next_chunks(num_chunks: int) -> str:
    return f"{num_chunks - 1} or {num_chunks}" if num_chunks else "0"

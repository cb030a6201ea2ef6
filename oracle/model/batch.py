"""The work of one step: requests, their cached context, and the blocks that hold their keys."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Literal

from cumae.oracle.model.rules import INT32_MAX, require, require_choice, require_int

Phase = Literal["prefill", "decode"]


@dataclass(frozen=True, slots=True)
class Request:
    """One request of a step.

    ``context_len``: tokens whose KV is already cached (earlier chunks, a prefix hit, decoded
    history). ``query_len``: tokens computed in this step; 0 is legal. ``block_ids``: physical
    blocks in logical order; -1 means "no block here" (freed by a sliding window, or not granted).
    ``phase`` is stored, never guessed: a prefill chunk may be one token long and a decode several.

    Raises ``ValueError`` that names the field, the value and the rule.
    """

    context_len: int
    query_len: int
    block_ids: tuple[int, ...] = ()
    phase: Phase = "prefill"

    def __post_init__(self) -> None:
        context_len, query_len = self.context_len, self.query_len
        is_plain = type(context_len) is int and type(query_len) is int
        # Requests are made by the million: calls are left out where nothing can be wrong.
        if not (is_plain and 0 <= context_len <= INT32_MAX and 0 <= query_len <= INT32_MAX):
            require_int("context_len", context_len, 0)
            require_int("query_len", query_len, 0)
        if self.phase != "prefill":
            require_choice("phase", self.phase, ("prefill", "decode"))
            if context_len < 1:
                require(False, "context_len", context_len, "be >= 1 for a decode")
        if type(self.block_ids) is not tuple:
            is_list = isinstance(self.block_ids, Sequence) and not isinstance(self.block_ids, str)
            require(is_list, "block_ids", self.block_ids, "be a list of integers")
            object.__setattr__(self, "block_ids", tuple(self.block_ids))
        ids = self.block_ids
        if ids and not (set(map(type, ids)) == {int} and -1 <= min(ids) and max(ids) <= INT32_MAX):
            for i, block_id in enumerate(ids):
                require_int(f"block_ids[{i}]", block_id, -1)

    @property
    def seq_len(self) -> int:
        """Tokens of the request once this step is done."""
        return self.context_len + self.query_len


@dataclass(frozen=True, slots=True)
class Batch:
    """The requests of one step, in order, and how their KV is cut into blocks.

    ``block_size``: tokens a block holds on one rank. ``world``: context-parallel ranks over which
    each block id is spread, so an id stands for ``block_size * world`` tokens of its request.
    ``num_tokens``: tokens computed in this step, without padding.

    Raises ``ValueError`` if a request has too few blocks, if live blocks repeat or are shared other than as a
    common prefix, or if a slot written in this step belongs to another request too.
    """

    requests: tuple[Request, ...]
    block_size: int
    world: int = 1
    num_tokens: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if type(self.requests) is not tuple:
            is_list = isinstance(self.requests, Sequence) and not isinstance(self.requests, str)
            require(is_list, "requests", self.requests, "be a list of requests")
            object.__setattr__(self, "requests", tuple(self.requests))
        requests = self.requests
        if not set(map(type, requests)) <= {Request}:
            b = next(b for b, one in enumerate(requests) if type(one) is not Request)
            require(False, f"requests[{b}]", requests[b], "be a Request")
        require_int("block_size", self.block_size, 1, 2**20)
        require_int("world", self.world, 1, 2**16)
        object.__setattr__(self, "num_tokens", sum([request.query_len for request in requests]))
        total = self.num_tokens + sum([request.context_len for request in requests])
        if total > INT32_MAX:
            require(False, "sum of seq_lens", total, f"be <= {INT32_MAX}: cu_seqlens are int32")
        tokens_per_block, held = self.tokens_per_block, list[tuple[int, ...]]()
        for b, request in enumerate(requests):
            needed = -(-(request.context_len + request.query_len) // tokens_per_block)
            if len(request.block_ids) < needed:
                rule = f"be >= {needed} for {request.seq_len} tokens at {self.tokens_per_block} a block"
                require(False, f"requests[{b}].block_ids: number", len(request.block_ids), rule)
            held.append(request.block_ids[:needed])
        _check_sharing(self, held)

    @property
    def tokens_per_block(self) -> int:
        """Tokens of a request that one block id stands for, over all ranks."""
        return self.block_size * self.world

    def num_live_blocks(self, request: Request) -> int:
        """Leading entries of ``block_ids`` that hold or will hold a token once the step is done."""
        return -(-request.seq_len // self.tokens_per_block)


def _check_sharing(batch: Batch, held: Sequence[tuple[int, ...]]) -> None:
    """Raise unless live blocks are distinct in a request, shared only as common prefixes, with one writer.

    ``held``: the live blocks of each request. A missing block (-1) before a shared one matches any block.
    """
    everyones = list(chain.from_iterable(held))
    distinct = set(everyones)
    if len(distinct) - (-1 in distinct) == len(everyones) - everyones.count(-1):
        return
    if _shares_full_prefixes(batch, held):
        return
    counts = Counter(everyones)
    repeated = {block_id for block_id, count in counts.items() if count > 1 and block_id >= 0}
    if not repeated:
        return
    places: dict[int, tuple[int, int]] = {}
    holders: dict[int, list[int]] = {}
    for b, block_ids in enumerate(held):
        for j, block_id in enumerate(block_ids):
            if block_id not in repeated:
                continue
            previous = block_ids[j - 1] if j else -1
            if block_id not in places:
                places[block_id] = (j, previous)
                holders[block_id] = [b]
            else:
                shared, (column, before) = holders[block_id], places[block_id]
                if shared[-1] == b:
                    require(False, _entry(b, j), block_id, "be distinct within its request")
                if column != j or (before != previous and before >= 0 and previous >= 0):
                    rule = f"be shared with request {shared[0]} only as part of a common prefix"
                    require(False, _entry(b, j), block_id, rule)
                places[block_id] = (j, max(before, previous))
                shared.append(b)
    for block_id, sharers in holders.items():
        if len(sharers) > 1:
            _check_one_writer(batch, block_id, places[block_id][0], sharers)


def _shares_full_prefixes(batch: Batch, held: Sequence[tuple[int, ...]]) -> bool:
    """Return whether no block is missing, and shared ones lead their requests and are full of context.

    This tells quickly that nothing is wrong with most batches in which requests share blocks.
    """
    first_holder: dict[int, int] = {}
    for b, block_ids in enumerate(held):
        num_shared = len(first_holder.keys() & block_ids)
        if -1 in block_ids or len(set(block_ids)) < len(block_ids):
            return False
        if num_shared:
            first = first_holder.get(block_ids[num_shared - 1], b)
            cached = min(batch.requests[first].context_len, batch.requests[b].context_len)
            is_prefix = first != b and held[first][:num_shared] == block_ids[:num_shared]
            if not is_prefix or cached < num_shared * batch.tokens_per_block:
                return False
        first_holder.update(dict.fromkeys(block_ids[num_shared:], b))
    return True


def _entry(b: int, j: int) -> str:
    return f"requests[{b}].block_ids[{j}]"


def _check_one_writer(batch: Batch, block_id: int, column: int, sharers: list[int]) -> None:
    start = column * batch.tokens_per_block
    if min([batch.requests[b].context_len for b in sharers]) >= start + batch.tokens_per_block:
        return  # it is full: nobody writes
    by_length = sorted(sharers, key=lambda b: batch.requests[b].seq_len)
    longest, second = by_length[-1], by_length[-2]
    for b in sharers:
        request = batch.requests[b]
        first_write = max(request.context_len, start)
        if first_write >= min(request.seq_len, start + batch.tokens_per_block):
            continue
        other = second if b == longest else longest
        require(
            batch.requests[other].seq_len <= first_write,
            _entry(b, column),
            block_id,
            f"not be written at position {first_write}: request {other} holds it there too",
        )

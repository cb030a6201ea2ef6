"""Tokens of a serving engine that handles one after another, and is asked afterwards where everything went.

The second formulation of the operations: no running sums, no division. Tokens are appended to lists
and put into blocks one at a time; offsets, positions, slots and windows are read from what grew.
"""

from collections.abc import Iterable, Iterator
from itertools import cycle
from typing import NamedTuple

from cumae.oracle import Batch

Answer = dict[str, list[object]]


class Token(NamedTuple):
    """A token's tag: its request, and how many tokens of that request came before it."""

    request: int
    number: int
    is_new: bool


class Place(NamedTuple):
    """Where a rank's cache holds a token."""

    block: int
    offset: int


def groups_of(entries: Iterable[int], size: int) -> Iterator[list[int]]:
    """Yield the entries ``size`` at a time, fewer at the end."""
    group: list[int] = []
    for entry in entries:
        group.append(entry)
        if len(group) == size:
            yield group
            group = []
    if group:
        yield group


def lives_of(batch: Batch) -> list[list[Token]]:
    """Return the tokens of each request in the order in which they came, cached ones first."""
    lives: list[list[Token]] = []
    for b, request in enumerate(batch.requests):
        life: list[Token] = []
        for _ in range(request.context_len):
            life.append(Token(b, len(life), is_new=False))
        for _ in range(request.query_len):
            life.append(Token(b, len(life), is_new=True))
        lives.append(life)
    return lives


def kept_of(batch: Batch, b: int, life: list[Token], key_scope: str) -> list[Token]:
    """Return the tokens of request ``b`` that have a place in the key buffer."""
    return life if key_scope == "all" or batch.requests[b].phase == "prefill" else []


def owners_of(world: int, interleave: int) -> Iterator[int]:
    """Yield the rank that owns each token of a request: dealt out round and round, some at a time."""
    for rank in cycle(range(world)):
        for _ in range(interleave):
            yield rank


def places_of(batch: Batch, rank: int, interleave: int) -> dict[Token, Place]:
    """Return where ``rank`` holds its tokens, each request filling its blocks from the first on.

    Raises ``AssertionError`` where a new token lands on another request's token: no valid batch does.
    """
    places: dict[Token, Place] = {}
    holders: dict[Place, list[Token]] = {}
    for b, life in enumerate(lives_of(batch)):
        free = (Place(block, o) for block in batch.requests[b].block_ids for o in range(batch.block_size))
        for token, owner in zip(life, owners_of(batch.world, interleave), strict=False):
            if owner == rank:
                place = next(free)
                if place.block >= 0:
                    places[token] = place
                    holders.setdefault(place, []).append(token)
    for place, tokens in holders.items():
        if len(tokens) > 1 and any(token.is_new for token in tokens):
            raise AssertionError(f"{place} is written although it holds {tokens}")
    return places

"""The request that owns each entry of a list in which the entries of each request stand together.

Up to 4,096 requests, a kernel that writes such a list is one launch. Each of its programs adds up the
entries of all requests and writes its own tiles of entries: every `num_programs`-th one.
Beyond, earlier launches add up the entries of tiles of requests (`tile_ends`). Each program then has an even
share of the entries and adds up only the tiles of requests that own them.
"""

from typing import NamedTuple

import triton
import triton.language as tl

# Entries of a tile: where a program has one tile, and where it may have several.
ENTRIES_OF_ONE, ENTRIES_OF_MANY = 256, 512
# Requests of a tile. Each number is a compile.
REQUESTS_PER_TILE = (64, 256, 1024, 4096)
# Where programs do not add up all requests, the requests of a tile.
REQUESTS_OF_MANY = 1024
# Each program adds up all requests, so with many there is one for each multiprocessor of an H100 or H200.
FEW_REQUESTS = 1024
MAX_PROGRAMS, MAX_PROGRAMS_OF_MANY = 512, 132
NUM_WARPS = 8


@triton.jit
def next_own_tile(i_entry: tl.tensor, num_programs: tl.tensor, ENTRIES: tl.constexpr) -> tl.tensor:
    """Return the first tile of this program, int64, that is not before the tile of i_entry."""
    # A remainder of 64 bits takes as long as a load. There are fewer than 2**31 tiles.
    i_tile = (i_entry.to(tl.int64) // ENTRIES).to(tl.int32)
    i_tile += (tl.program_id(0) + num_programs - i_tile % num_programs) % num_programs
    return i_tile.to(tl.int64)


@triton.jit
def own_entries(
    num_entries: tl.tensor, num_programs: tl.tensor, ENTRIES: tl.constexpr, HAS_ENDS: tl.constexpr
) -> tuple[tl.tensor, tl.tensor]:
    """Return the range of entries of this program, whole tiles; without sums of tiles [0, 1) for all."""
    first = tl.full((), 0, tl.int32)
    stop = tl.full((), 1, tl.int32)
    if HAS_ENDS:
        num_tiles = ((num_entries.to(tl.int64) + ENTRIES - 1) // ENTRIES).to(tl.int32)
        share = ((num_tiles + num_programs - 1) // num_programs).to(tl.int64) * ENTRIES
        first = tl.minimum(tl.program_id(0) * share, num_entries)
        stop = tl.minimum(first + share, num_entries).to(tl.int32)
        first = first.to(tl.int32)
    return first, stop


@triton.jit
def own_tiles(
    i_entry: tl.tensor,
    i_stop: tl.tensor,
    i_end: tl.tensor,
    num_programs: tl.tensor,
    ENTRIES: tl.constexpr,
    HAS_ENDS: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """Return the tiles that this program writes of the entries [i_entry, i_stop): first, stop and step.

    i_end: where the range of `own_entries` ends.
    """
    if HAS_ENDS:
        first = (i_entry // ENTRIES).to(tl.int64)
        stop = tl.minimum(i_stop, i_end)
        step = 1
    else:
        first = next_own_tile(i_entry, num_programs, ENTRIES)
        stop = i_stop
        step = num_programs
    return first, (stop.to(tl.int64) + ENTRIES - 1) // ENTRIES, step


@triton.jit
def find_owners(first: tl.tensor, i_first: tl.tensor, ENTRIES: tl.constexpr) -> tl.tensor:
    """Return which request of a tile owns each of the entries from i_first on, as a place in `first`.

    first: the first entry of each request, never falling. A request without entries owns none. An entry
    before the first request gets place 0.
    """
    counts = tl.sum((first <= i_first).to(tl.int64) + ((first < i_first + ENTRIES).to(tl.int64) << 32))
    low = tl.maximum((counts & 0xFFFFFFFF).to(tl.int32) - 1, 0)
    span = tl.maximum((counts >> 32).to(tl.int32) - 1, 0) - low
    o_entry = i_first + tl.arange(0, ENTRIES)
    owner = tl.full((ENTRIES,), 0, tl.int32) + low
    high = owner + span
    while span > 0:
        middle = (owner + high + 1) >> 1
        is_begun = tl.gather(first, middle, 0) <= o_entry
        owner = tl.where(is_begun, middle, owner)
        high = tl.where(is_begun, high, middle - 1)
        span = span >> 1
    return owner


class ListShape(NamedTuple):
    """The requests of a tile and their tiles, the entries of a tile and the programs that share these."""

    requests: int
    num_tiles: int
    entries: int
    num_programs: int

    @property
    def has_ends(self) -> bool:
        """Whether there are more tiles than one, which earlier launches add up."""
        return self.num_tiles > 1


def shape_of_list(num_entries: int, num_requests: int) -> ListShape:
    """Return how a kernel divides num_entries entries of num_requests requests."""
    requests, limit = requests_per_tile(num_requests), MAX_PROGRAMS
    if num_requests > requests:
        requests = REQUESTS_OF_MANY
    elif num_requests > FEW_REQUESTS:
        limit = MAX_PROGRAMS_OF_MANY
    num_tiles = max(1, -(-num_requests // requests))
    is_one = num_tiles == 1 and num_entries <= ENTRIES_OF_ONE * limit
    entries = ENTRIES_OF_ONE if is_one else ENTRIES_OF_MANY
    return ListShape(requests, num_tiles, entries, max(1, min(-(-num_entries // entries), limit)))


def requests_per_tile(num_requests: int) -> int:
    """Return how many requests a program adds up at a time."""
    return next((size for size in REQUESTS_PER_TILE if num_requests <= size), REQUESTS_PER_TILE[-1])

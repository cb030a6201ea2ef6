"""The request that owns each entry of a list in which the entries of each request stand together.

A kernel that writes such a list is one launch for any number of requests. Each of its programs runs through
all requests, a tile at a time, and adds up their entries. It writes only its own tiles of entries: every
`num_programs`-th one. There are at most MAX_PROGRAMS programs, so the work is linear in requests and entries.
"""

import triton
import triton.language as tl

ENTRIES_PER_TILE = 512
# Requests of a tile. Each number is a compile.
REQUESTS_PER_TILE = (64, 256, 1024, 4096)
# Each program adds up all requests, so with many there is one for each multiprocessor of an H100 or H200.
FEW_REQUESTS = 1024
MAX_PROGRAMS, MAX_PROGRAMS_OF_MANY = 512, 132
NUM_WARPS = 8


@triton.jit
def next_own_tile(i_entry: tl.tensor, ENTRIES: tl.constexpr) -> tl.tensor:
    """Return the first tile of this program, int64, that is not before the tile of i_entry."""
    # A remainder of 64 bits takes as long as a load. There are fewer than 2**31 tiles.
    i_tile = (i_entry.to(tl.int64) // ENTRIES).to(tl.int32)
    num_programs = tl.num_programs(0)
    i_tile += (tl.program_id(0) + num_programs - i_tile % num_programs) % num_programs
    return i_tile.to(tl.int64)


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


def programs_of(num_entries: int, num_requests: int) -> int:
    """Return the number of programs that share num_entries entries of num_requests requests."""
    limit = MAX_PROGRAMS if num_requests <= FEW_REQUESTS else MAX_PROGRAMS_OF_MANY
    return max(1, min(-(-num_entries // ENTRIES_PER_TILE), limit))


def requests_per_tile(num_requests: int) -> int:
    """Return how many requests a program adds up at a time."""
    return next((size for size in REQUESTS_PER_TILE if num_requests <= size), REQUESTS_PER_TILE[-1])

"""The request that owns each entry of a list in which the entries of each request stand together.

A kernel that writes such a list is one launch for any number of requests. Each of its programs runs through
all requests, a tile at a time, and adds up their entries. It writes only its own tiles of entries: every
`num_programs`-th one. There are at most MAX_PROGRAMS programs, so the work is linear in requests and entries.
"""

import triton
import triton.language as tl

ENTRIES_PER_TILE = 512
MAX_PROGRAMS = 512
# Requests of a tile. Each number is a compile, so there are only two.
FEW_REQUESTS, MANY_REQUESTS = 128, 1024
NUM_WARPS = 8


@triton.jit
def next_own_tile(i_entry: tl.tensor, ENTRIES: tl.constexpr) -> tl.tensor:
    """Return the first tile of this program, int64, that is not before the tile of i_entry."""
    i_tile = i_entry.to(tl.int64) // ENTRIES
    num_programs = tl.num_programs(0)
    return i_tile + (tl.program_id(0) + num_programs - i_tile % num_programs) % num_programs


@triton.jit
def find_owners(first: tl.tensor, i_first: tl.tensor, ENTRIES: tl.constexpr) -> tl.tensor:
    """Return which request of a tile owns each of the entries from i_first on, as a place in `first`.

    first: the first entry of each request, never falling. A request without entries owns none. An entry
    before the first request gets place 0.
    """
    offset = first - i_first
    m_begun = offset < ENTRIES
    num_begun = tl.histogram(tl.where(m_begun, tl.maximum(offset, 0), 0).to(tl.int32), ENTRIES, mask=m_begun)
    return tl.maximum(tl.cumsum(num_begun) - 1, 0)


def programs_of(num_entries: int) -> int:
    """Return the number of programs that share num_entries entries."""
    return max(1, min(-(-num_entries // ENTRIES_PER_TILE), MAX_PROGRAMS))


def requests_per_tile(num_requests: int) -> int:
    """Return how many requests a program adds up at a time."""
    return FEW_REQUESTS if num_requests <= FEW_REQUESTS else MANY_REQUESTS

"""Running sums of request lengths in the registers of each program, and the request that owns each token.

Up to MAX_REQUESTS requests, and MOST_SCANNED lengths in all, a kernel needs no earlier launch: each of its
programs loads all lengths. Beyond, `launch_running_sums` writes the sums, and programs search them in memory.
Both forms find the owner of each token by binary search among the requests of the program's tokens. The owner
of a token is the first request that ends behind it, so requests without tokens own none.
"""

import triton
import triton.language as tl

MAX_REQUESTS = 4096
# Requests that a program loads, and tokens that it writes. Each number is a compile.
REQUESTS_PER_SCAN = (64, 256, 1024, MAX_REQUESTS)
TOKENS_PER_TILE = (128, 256, 512, 1024)
# Tiles are as large as they can be with four programs for each of the 132 multiprocessors of an H100 or H200.
MULTIPROCESSORS = 132
NUM_PROGRAMS = 4 * MULTIPROCESSORS
# Programs that scan so many requests or more are fewer, with larger tiles: scanning takes most of their time.
MANY_SCANNED = 1024
# The most lengths that all programs of a launch load together. With more, they search running sums in memory.
MOST_SCANNED = 2**20
PROBES_PER_ROUND = tl.constexpr(256)
# Each token of a tile is compared with each end of a request in it, if there are no more ends than these.
FEW_STOPS = tl.constexpr(8)


@triton.jit
def _load_lens(lens: tl.tensor, num_requests: tl.tensor, REQUESTS: tl.constexpr) -> tl.tensor:
    """Return the length of each request, 0 past the last one."""
    o_request = tl.arange(0, REQUESTS)
    # A mask that is the same for each four requests lets a thread load four lengths at once.
    m_four = o_request // 4 * 4 + 3 < num_requests
    m_rest = (o_request < num_requests) & (m_four == 0)
    loaded = tl.load(lens + o_request, mask=m_four, other=0)
    if num_requests % 4 != 0:
        loaded += tl.load(lens + o_request, mask=m_rest, other=0)
    return loaded


@triton.jit
def load_lens(
    context_lens: tl.tensor,
    query_lens: tl.tensor,
    is_prefill: tl.tensor,
    num_requests: tl.tensor,
    compress_ratio: tl.tensor,
    IS_PREFILL_SCOPE: tl.constexpr,
    REQUESTS: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """Return context_len, query_len and key rows of each request, int32; 0 past the last request."""
    query_len = _load_lens(query_lens, num_requests, REQUESTS).to(tl.int32)
    context_len = _load_lens(context_lens, num_requests, REQUESTS).to(tl.int32)
    num_keys = (context_len + query_len) // compress_ratio
    if IS_PREFILL_SCOPE:
        o_request = tl.arange(0, REQUESTS)
        m_request = o_request < num_requests
        num_keys = tl.where(tl.load(is_prefill + o_request, mask=m_request, other=0) != 0, num_keys, 0)
    return context_len, query_len, num_keys


@triton.jit
def scan_lens(query_len: tl.tensor, num_keys: tl.tensor) -> tuple[tl.tensor, tl.tensor]:
    """Return the running sums of both, int32, each request included: one scan of packed pairs."""
    sums = tl.cumsum((num_keys.to(tl.int64) << 32) + query_len)
    return sums.to(tl.int32), (sums >> 32).to(tl.int32)


@triton.jit
def store_sums(
    context_len: tl.tensor,
    query_len: tl.tensor,
    stop_q: tl.tensor,
    stop_k: tl.tensor,
    cu_seqlens_q: tl.tensor,
    cu_seqlens_k: tl.tensor,
    max_seqlen_q: tl.tensor,
    max_seqlen_k: tl.tensor,
    num_requests: tl.tensor,
    last_q: tl.tensor,
    HAS_DUMMY: tl.constexpr,
    REQUESTS: tl.constexpr,
) -> None:
    """Store the running sums and the maxima; with HAS_DUMMY last_q is the last of cu_seqlens_q."""
    o_request = tl.arange(0, REQUESTS)
    m_request = o_request < num_requests
    if HAS_DUMMY:
        stop_q = tl.where(o_request == num_requests - 1, last_q, stop_q)
    tl.store(cu_seqlens_q, 0)
    tl.store(cu_seqlens_k, 0)
    tl.store(cu_seqlens_q + 1 + o_request, stop_q, mask=m_request)
    tl.store(cu_seqlens_k + 1 + o_request, stop_k, mask=m_request)
    tl.store(max_seqlen_q, tl.max(query_len))
    tl.store(max_seqlen_k, tl.max(tl.where(query_len > 0, context_len + query_len, 0)))


@triton.jit
def owners_in_scan(
    query_len: tl.tensor, stop_q: tl.tensor, num_requests: tl.tensor, i_first: tl.tensor, TILE: tl.constexpr
) -> tl.tensor:
    """Return the owner of each of TILE tokens from i_first on, num_requests or more for a padding row."""
    # Three counts in one sum: of requests that end before the tile, before its end, and in it with one token.
    RADIX: tl.constexpr = 2 * stop_q.shape[0]
    COUNTS: tl.constexpr = tl.int32 if RADIX * RADIX * TILE <= 2**31 else tl.int64
    counts = tl.where(query_len == 1, RADIX * RADIX + RADIX, RADIX).to(COUNTS)
    counts = tl.where(stop_q < i_first + TILE, counts, 0)
    counts = tl.sum(tl.where(stop_q <= i_first, RADIX + 1, counts))
    low = (counts % RADIX).to(tl.int32)
    # Requests past the last one end where it does.
    span = tl.minimum((counts // RADIX % RADIX).to(tl.int32), num_requests) - low
    num_single = (counts // (RADIX * RADIX)).to(tl.int32)
    # Requests of one token each, as of decodes, and then at most one that goes on behind the tile.
    i_request = low + tl.minimum(tl.arange(0, TILE), span)
    if num_single != span:
        o_token = i_first + tl.arange(0, TILE)
        i_last = stop_q.shape[0] - 1
        if span <= FEW_STOPS:
            # No token of a request reaches a stop behind the tile, so none is left out.
            stops = tl.gather(stop_q, tl.minimum(low + tl.arange(0, FEW_STOPS), i_last), 0)
            i_request = low + tl.sum((stops[:, None] <= o_token[None, :]).to(tl.int32), axis=0)
        else:
            i_request = tl.full((TILE,), 0, tl.int32) + low
            i_high = i_request + span
            while span > 0:
                middle = (i_request + i_high) >> 1
                is_past = tl.gather(stop_q, tl.minimum(middle, i_last), 0) <= o_token
                i_request = tl.where(is_past, middle + 1, i_request)
                i_high = tl.where(is_past, i_high, middle)
                span = span >> 1
    return i_request


@triton.jit
def count_stops(
    cu_seqlens: tl.tensor, num_requests: tl.tensor, low: tl.tensor, value: tl.tensor
) -> tl.tensor:
    """Return how many requests end at or before a value, at least `low` of them."""
    high = num_requests
    while low < high:
        stride = (high - low + PROBES_PER_ROUND - 1) // PROBES_PER_ROUND
        o_stop = low + (tl.arange(0, PROBES_PER_ROUND) + 1) * stride
        m_stop = o_stop <= high
        m_stop = m_stop & (tl.load(cu_seqlens + o_stop, mask=m_stop, other=0) <= value)
        low += tl.sum(m_stop.to(tl.int32)) * stride
        high = tl.minimum(high, low + stride - 1)
    return low


@triton.jit
def count_tokens(query_lens: tl.tensor, cu_seqlens_q: tl.tensor, num_requests: tl.tensor) -> tl.tensor:
    """Return the number of tokens of the step; there is at least one request."""
    # Not cu_seqlens_q[num_requests], which a dummy request raises to the number of padded tokens.
    return tl.load(cu_seqlens_q + num_requests - 1) + tl.load(query_lens + num_requests - 1).to(tl.int32)


@triton.jit
def count_near_stops(
    cu_seqlens: tl.tensor, num_requests: tl.tensor, low: tl.tensor, value: tl.tensor
) -> tl.tensor:
    """Return how many requests end at or before a value, at least `low` of them and mostly few more."""
    o_stop = low + 1 + tl.arange(0, PROBES_PER_ROUND)
    m_stop = o_stop <= num_requests
    m_stop = m_stop & (tl.load(cu_seqlens + o_stop, mask=m_stop, other=0) <= value)
    found = low + tl.sum(m_stop.to(tl.int32))
    if found == low + PROBES_PER_ROUND:
        found = count_stops(cu_seqlens, num_requests, found, value)
    return found


@triton.jit
def owners_between(
    cu_seqlens: tl.tensor, low: tl.tensor, high: tl.tensor, i_first: tl.tensor, TILE: tl.constexpr
) -> tl.tensor:
    """Return the owner of each of TILE tokens from i_first on, the running sums being in memory.

    It is a request from low to high - 1, or high for a token behind their last.
    """
    i_request = tl.full((TILE,), 0, tl.int32) + low
    i_high = tl.full((TILE,), 0, tl.int32) + high
    o_token = i_first + tl.arange(0, TILE)
    span = high - low
    while span > 0:
        middle = (i_request + i_high) >> 1
        m_open = middle < i_high
        is_past = m_open & (tl.load(cu_seqlens + 1 + middle, mask=m_open, other=0) <= o_token)
        i_request = tl.where(is_past, middle + 1, i_request)
        i_high = tl.where(is_past, i_high, middle)
        span = span >> 1
    return i_request


@triton.jit
def owners_in_memory(
    query_lens: tl.tensor,
    cu_seqlens_q: tl.tensor,
    num_requests: tl.tensor,
    i_first: tl.tensor,
    TILE: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """Return the owner of each of TILE tokens from i_first on, and the number of tokens of the step.

    There is at least one request. The owner of a padding row may be any number from 0 to num_requests.
    """
    num_tokens = count_tokens(query_lens, cu_seqlens_q, num_requests)
    i_request = tl.full((TILE,), 0, tl.int32)
    if i_first < num_tokens:
        low = count_stops(cu_seqlens_q, num_requests, tl.full((), 0, tl.int32), i_first)
        high = count_near_stops(cu_seqlens_q, num_requests, low, i_first + TILE)
        i_request = owners_between(cu_seqlens_q, low, high, i_first, TILE)
    return i_request, num_tokens


def shape_of_scan(num_requests: int, num_tokens: int) -> tuple[int, int, int]:
    """Return the requests and tokens of a program, and its warps. 0 requests: it searches running sums."""
    wanted = -(-num_tokens // NUM_PROGRAMS)
    tile = next((size for size in TOKENS_PER_TILE if wanted <= size), TOKENS_PER_TILE[-1])
    requests = next((size for size in REQUESTS_PER_SCAN if num_requests <= size), 0)
    num_warps = 8 if requests == MAX_REQUESTS else 4
    if requests >= MANY_SCANNED and tile == 128 and num_tokens > MULTIPROCESSORS * 128:
        # One larger tile for each multiprocessor, or two where fewer requests are scanned.
        is_largest = requests == MAX_REQUESTS and num_tokens > MULTIPROCESSORS * 256
        tile, num_warps = 512 if is_largest else 256, 8
    if num_requests > REQUESTS_PER_SCAN[0] and requests * -(-num_tokens // tile) > MOST_SCANNED:
        requests, num_warps = 0, 4
    return requests, tile, num_warps

"""Draw the values of fields from choices, within a domain and consistent with the fields drawn before."""

from cumae.oracle import Case
from cumae.properties.cases.choices import draw_permutation
from cumae.properties.cases.draw import Draw

MOST_SELECTED = 2**14
RATIOS = (1, 2, 4, 8, 128)
WINDOWS = (0, 127, 128, 129, 512, 1024, 4096)
CHUNKS = (1, 2, 8, 32, 64, 128, 256, 512)
RINGS = (4, 8, 32, 64, 128, 256, 512)
TOPKS = (2, 64, 512, 1024, 2048, 4096)
MOST_DRAFTS = (0, 1, 2, 3, 4, 5, 6, 7, 8, 16, 64)
DRAFTS = tuple(most + 1 for most in MOST_DRAFTS[1:])
"""Values that engines run. A decode verifies its drafts and one token more."""
GROUPS_OF_TOKENS = (2, 3, 4, 8, 128)
"""The tokens of a compressed key."""
MANY_ROWS = 2**12
"""More rows than this get the smallest width."""
LATENT_DIMS = ((1, 0), (2, 1), (3, 2), (8, 4), (16, 8), (33, 7), (512, 64))


def padding_tokens(d: Draw) -> int:
    """Return the number of padding tokens: a few, or more than a kernel's tile."""
    if not d.is_padded:
        return 0
    slack = (30, 60, 124, 250, 1020) if d.choices.chance(10) else (0, 0, 1, 2, 5)
    return min(d.choices.pick(slack), max(d.domain.max_tokens - d.batch.num_tokens, 0))


def padding_requests(d: Draw) -> int:
    """Return the number of padded requests."""
    if not d.is_padded:
        return 0
    count = max(d.choices.pick((0, 0, 1, 3, 9)), int(d.domain.settled("dummy_request")))
    return min(count, max(d.domain.max_requests - len(d.batch.requests), 0))


def spare_blocks(d: Draw) -> int:
    """Return the number of blocks beyond the largest id; a cache has at least the reserved ones."""
    spare = d.choices.pick((0, 1, 4))
    if d.domain.reserved_blocks == 0:
        return spare
    largest = max((max(request.block_ids, default=-1) for request in d.batch.requests), default=-1)
    return max(spare, d.domain.reserved_blocks - 1 - largest)


def row_index(d: Draw) -> tuple[int, ...] | None:
    """Return scattered rows of a larger table, sometimes none for a few requests; None is the identity."""
    count, choices = len(d.batch.requests), d.choices
    if not count or choices.chance(25):
        return None
    size = count + choices.integer(0, 3)
    step, first = draw_permutation(choices, size)
    rows = [(first + b * step) % size for b in range(count)]
    if d.domain.rowless_requests and choices.chance(10):
        first, most = choices.integer(0, count - 1), choices.pick((1, 1, 2, count))
        rows[first : first + most] = [-1] * len(rows[first : first + most])
    return tuple(rows)


def latent_dims(d: Draw) -> tuple[int, int]:
    """Return mostly small dimensions, because an engine's row widths make large tensors."""
    dims = sorted(d.domain.latent_dims or LATENT_DIMS)
    if d.num_rows + sum(r.context_len for r in d.batch.requests) > MANY_ROWS:
        return dims[0]
    return d.choices.pick(dims[:-1] or dims) if not d.choices.chance(5) else dims[-1]


def _divides(d: Draw) -> list[int]:
    size = d.batch.block_size
    return [divisor for divisor in range(1, size + 1) if size % divisor == 0]


def interleave(d: Draw) -> int:
    """Return how many consecutive positions a rank owns; it divides the block size."""
    if d.batch.world == 1:
        return 1
    size = d.batch.block_size
    whole = d.keeps_groups and "compress_ratio" in d.features and d.limits_keys_by("compress_ratio")
    ratios = d.domain.among("compress_ratio", GROUPS_OF_TOKENS) if whole else (1,)
    fits = [run for run in _divides(d) if any(run % ratio == 0 for ratio in ratios)]
    return int(d.pick("interleave", fits, lambda value: size % value == 0))


def kernel_block_size(d: Draw) -> int | None:
    """Return the tokens of a kernel's block; it divides the manager's block size."""
    size = d.batch.block_size
    found: int | None = d.pick(
        "kernel_block_size", _divides(d)[::-1], lambda value: value is None or size % value == 0
    )
    return found


def compress_ratio(d: Draw) -> int:
    """Return the tokens per key row; 1 in most cases, and beside a promised window."""
    promised = 1 not in d.domain.among("compress_ratio", (1,))
    is_windowed = "window" in d.features and 0 not in d.domain.among("window", (0,))
    compressed = (d.limits_keys_by("compress_ratio") and not is_windowed) or promised
    if not compressed:
        return 1
    run = d.values["interleave"] if d.keeps_groups else 0
    return int(d.pick("compress_ratio", GROUPS_OF_TOKENS, lambda ratio: run % ratio == 0))


def window(d: Draw) -> int:
    """Return the number of keys that a token sees; 0, no limit, in most cases.

    Where each key is listed, the number is large only for few rows.
    """
    promised = 0 not in d.domain.among("window", (0,))
    listed = "min_window_columns" in d.features
    limited = (d.limits_keys_by("window") or promised) and d.values.get("compress_ratio", 1) == 1
    if not limited:
        return 0
    return int(
        d.pick("window", [n for n in (1, 2, 3, 4, 6, 16, 128, 129, 192) if not listed or _is_listed(d, n)])
    )


def min_window_columns(d: Draw) -> int:
    """Return the least number of columns of a window's row; large only for few rows."""
    usual = [columns for columns in (4, 1, 2, 7, 64, 130, 192) if _is_listed(d, columns)]
    return int(d.pick("min_window_columns", usual))


def _is_listed(d: Draw, columns: int) -> bool:
    """Whether rows of so many columns are few enough to be listed."""
    return columns <= 4 or d.num_rows * columns <= MOST_SELECTED


def ring_capacity(d: Draw) -> int:
    """Return the tokens of a request's ring."""
    return int(d.pick("ring_capacity", (4, 1, 2, 3, 5, 6, 8, 41, 64, 96, 127, 192, 1024)))


def dummy_request(d: Draw) -> bool:
    """Return whether a padded request takes the padding tokens."""
    able = d.layout.num_padding_requests > 0 or d.layout.num_padding_tokens == 0
    return able and d.flag("dummy_request", 30)


def topk(d: Draw) -> int:
    """Return the most keys that a token selects; large only for few rows."""
    rows = d.num_rows + d.layout.num_spare_tokens
    usual = [2, 1, 3, 6, *(topk for topk in (8, *TOPKS[1:]) if rows * topk <= MOST_SELECTED)]
    return int(d.pick("topk", usual))


def misses_blocks(case: Case) -> bool:
    """Whether a request lacks a block for some of its tokens."""
    requests = [request for request in case.batch.requests if -1 in request.block_ids]
    return any(-1 in r.block_ids[: case.batch.num_live_blocks(r)] for r in requests)


def splits_groups(case: Case) -> bool:
    """Whether the tokens of a compressed key lie on several ranks."""
    options = case.options
    return case.batch.world > 1 and options.parallel.interleave % options.keys.compress_ratio > 0


def context_slack(d: Draw) -> int:
    """Return how far the host's context bound exceeds the longest context, if a table has columns."""
    wide = any(request.block_ids for request in d.batch.requests)
    return int(d.pick("context_slack", (0, 0, 1, 100))) if wide else 0


def workspace_slack(d: Draw) -> int:
    """Return the rows of a workspace beyond whole blocks; some hold most of a block for each request."""
    num_with_context = sum(request.context_len > 0 for request in d.batch.requests)
    most_of_a_block = min(3 * d.batch.block_size // 4 * num_with_context, 2**20)
    return int(d.pick("workspace_slack", (0, 0, 1, 7, 100, 300, *4 * (most_of_a_block,))))

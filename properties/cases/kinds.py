"""Steps whose requests are all of one kind, and requests that stand alone in one way.

Most steps that an engine runs are alike: only decodes, only first chunks, one busy request among idle ones.
Functions take a faster path for them, and that path has limits of its own.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count as count_from

from cumae.oracle import PAGE_ORDERS, Case, Request
from cumae.oracle.model.drafts import num_drafts_of
from cumae.properties.cases.busy_steps import BUSY, OF_HEADS
from cumae.properties.cases.choices import mixed
from cumae.properties.cases.crowds import Lens, short
from cumae.properties.cases.engine_steps import (
    deep_in_blocks_of,
    for_all_workers,
    in_blocks_of,
    in_chunks,
    in_equal_shares,
    in_order,
    in_rows_of,
    in_runs_of,
    in_windows,
    routed,
    selecting,
)
from cumae.properties.cases.ladder import Ladder
from cumae.properties.cases.ordinary import ORDINARY
from cumae.properties.cases.production import (
    RUNS,
    few_of_many,
    for_nobody,
    holey_decodes,
    identical,
    in_a_row,
    past_the_table,
    run_and_others,
    with_one_far,
    with_one_prompt,
)

Build = Callable[[Ladder, int], Case | None]
DRAFTS = 5
"""Drafts that each decode of a verify step has."""
TOKENS_OF_A_CHUNK = 4
"""New tokens of a first chunk on average, so that a power of two of them has a power of two of tokens."""
ENGINE_BLOCKS = (1, 8, 32, 64, 128, 256, 512)
"""Block sizes that engines run beside 16."""
ODD_BLOCKS, DEPTHS = (24, 656, 1_056), (140_003, 33_793)
"""Block sizes that are no powers of two, as of hybrid models, and the depths of contexts in them."""
LARGE_CHUNKS = (64, 128, 256)
"""Smaller chunks are drawn often enough with requests of several whole ones."""


def decodes(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes of one token each, without padding."""
    lens: list[Lens] = [("decode", 1 + mixed(b) % 40, 1) for b in range(count)]
    return ladder.step(lens, seed=count, padding=(0, 0))


def verified(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes that verify equally many drafts, and of more padded requests.

    There are twice as many requests with the padded ones, and as many rows as the next power of two.
    """
    if (drafting := ladder.having("max_drafts", DRAFTS)) is not None:
        ladder = drafting
    lens: list[Lens] = [("decode", _verifying(b), DRAFTS + 1) for b in range(count)]
    num_tokens = count * (DRAFTS + 1)
    rows = 1 << num_tokens.bit_length()
    return ladder.step(lens, seed=count, padding=(rows - num_tokens, count + 2))


def first_chunks(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` requests without context and ``4 * count`` tokens, without padding.

    The last one is the longest.
    """
    query_lens = [1 + mixed(b) % TOKENS_OF_A_CHUNK for b in range(count - 1)]
    query_lens.append(TOKENS_OF_A_CHUNK * count - sum(query_lens))
    return ladder.step([("prefill", 0, n) for n in query_lens], seed=count, padding=(0, 0))


def begun_pages(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes, each of which begins a page."""
    return ladder.step(list(_at_pages(count, ladder.usual_block, 0)), seed=count)


def filled_pages(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes, each of which fills a page."""
    return ladder.step(list(_at_pages(count, ladder.usual_block, -1)), seed=count)


def first_alone(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` requests, of which only the first has new tokens."""
    return _one_busy(ladder, count, 0)


def last_alone(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` requests, of which only the last has new tokens."""
    return _one_busy(ladder, count, count - 1)


def among_decodes(ladder: Ladder, count: int, num_idle: int = 0) -> Case | None:
    """Return a case of so many decodes of one token, and in their middle one request of six.

    With five idle requests, which stand before it, the step has as many tokens as requests.
    """
    lens: list[Lens] = [("decode", 1 + mixed(b) % 40, 1) for b in range(count)]
    lens[count // 4 : count // 4] = [("decode", 3 + b, 0) for b in range(num_idle)]
    lens[count // 2 : count // 2] = [("decode", 20 + count % 7, 6)]
    return ladder.step(lens, seed=count)


def idle_around(ladder: Ladder, count: int) -> Case | None:
    """Return a case of a few requests between two runs of ``count`` requests without new tokens."""
    idle: list[Lens] = [("prefill", 1 + mixed(b) % 5, 0) for b in range(count)]
    return ladder.step([*idle, *short(5), ("decode", 3, 1), *idle], seed=count)


def long_among_idle(ladder: Ladder, size: int) -> Case | None:
    """Return a case of one request with ``size`` new tokens, between two without any."""
    return ladder.step([("prefill", 7, 0), ("prefill", 3, size), ("decode", 5, 0)], seed=size)


def uneven(third: int, ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``3 * count + 3`` decodes: the first, the last and the mean have two new tokens.

    Others have one or three, and every third ``third``; a step of idle ones has two for each busy one.
    """
    query_lens = [2, *(1, 3, third) * count, 2, 2]
    lens: list[Lens] = [("decode", 1 + mixed(b) % 40, n) for b, n in enumerate(query_lens)]
    return ladder.step(lens, seed=count, padding=(0, 0))


def heavy(ladder: Ladder, size: int) -> Case | None:
    """Return a case of decodes with ``size`` cached tokens each, whose sum passes 2^24 and is odd."""
    lens: list[Lens] = [("decode", size, 1) for _ in range(2**24 // size)]
    lens += [("decode", 2, 1), ("prefill", 1, 1)]
    whole = ladder.without("window", "compress_ratio", "key_scope", "kernel_block_size")
    return whole.step(lens, seed=size, block_size=max(ladder.sizes))


def behind(ladder: Ladder, size: int, option: str, value: int) -> Case | None:
    """Return a case of a token behind ``size`` cached ones: it sees few of them, or their rows are narrow."""
    if (few := ladder.having(option, value)) is None:
        return None
    lens: list[Lens] = [("prefill", 2, 3), ("decode", size, 1), ("decode", size // 3, 1), ("prefill", 0, 2)]
    return few.step(lens, seed=size, block_size=few.usual_block)


def single(ladder: Ladder, size: int) -> Case | None:
    """Return a case of one request, with ``size`` new tokens, without a window."""
    return ladder.unlimited.step([("prefill", size // 2, size)], seed=size)


def full_columns(ladder: Ladder, size: int) -> Case | None:
    """Return a case whose longest request fills ``size`` columns, as many as there are."""
    if (exact := ladder.having("page_slack", 0)) is not None:
        ladder = exact
    block_size = min(ladder.sizes)
    lens: list[Lens] = [("prefill", 2, 3), ("decode", size * block_size - 1, 1), ("decode", 4, 1)]
    return ladder.unlimited.step(lens, seed=size, block_size=block_size)


def _verifying(number: int) -> int:
    """Return a context with which a decode has as many drafts as it can have."""
    query_len = DRAFTS + 1
    contexts = count_from(1 + mixed(number) % 30)
    return next(c for c in contexts if num_drafts_of(Request(c, query_len), DRAFTS) == DRAFTS)


def _at_pages(count: int, block_size: int, more: int) -> Iterator[Lens]:
    """Yield decodes whose cached tokens are so many more than whole pages."""
    for b in range(count):
        yield "decode", (1 + mixed(b) % 5) * block_size + more, 1


def _one_busy(ladder: Ladder, count: int, at: int) -> Case | None:
    if (drafting := ladder.having("max_drafts", DRAFTS)) is not None:
        ladder = drafting
    lens: list[Lens] = [("prefill", mixed(b) % 3 * mixed(b, 1) % 20, 0) for b in range(count)]
    lens[at] = ("decode", _verifying(at), DRAFTS + 1)
    return ladder.step(lens, seed=count + at)


COUNTS = (1_025, 257, 65)
"""One more than whole tiles of decodes."""
POWERS = (512, 128)
QUIET = (131, 67)
AMONG = (261, 133, 69)
"""Decodes beside a few long requests: more than a tile of them."""
LENGTHS = (4_101, 1_029, 261)
WINDOWED = (1_040, 272)
ROUTED = "routed to 256 experts"
KINDS: Mapping[str, tuple[Build, Sequence[int]]] = {
    "in rows of fp8": (partial(in_rows_of, "fp8", False), (2_051, 530)),
    "in rows of fp8, scales in powers of two": (partial(in_rows_of, "fp8", True), (1_100, 530)),
    "in rows of fp16": (partial(in_rows_of, "fp16", False), (530, 130)),
    "in rows of fp32": (partial(in_rows_of, "fp32", False), (1_201, 530, 130)),
    "decodes": (decodes, COUNTS),
    "verified": (verified, (515, 254, 62)),
    "first chunks": (first_chunks, POWERS),
    "identical decodes": (partial(identical, ("decode", 16, 1)), (259, *QUIET)),
    "identical drafts": (partial(identical, ("decode", 20, DRAFTS + 1)), QUIET),
    "identical prompts": (partial(identical, ("prefill", 0, 7)), QUIET),
    "identical long decodes": (partial(identical, ("decode", 1_023, 1)), (*QUIET, 9)),
    "identical long prompts": (partial(identical, ("prefill", 0, 513)), (19, 9)),
    "one far": (with_one_far, (69, 37)),
    **OF_HEADS,
    **ORDINARY,
    "few of many": (few_of_many, (503, 119)),
    "for nobody": (partial(for_nobody, 10), (1_029, 259, 67)),
    "for no request": (partial(for_nobody, 0), (259, 67)),
    **{f"{kind}, then others": (partial(run_and_others, kind), AMONG) for kind in RUNS},
    "others, then decodes": (partial(run_and_others, "decodes", behind=False), AMONG),
    "decodes, then others, whose keys count": (partial(run_and_others, "decodes", scope="prefill"), AMONG),
    "pages in a row": (in_a_row, (67, 19)),
    "slots in a row": (partial(in_a_row, block_size=1), (67, 19)),
    "a prompt of all": (partial(with_one_prompt, 3), (131, 67, 35)),
    "pages of 67": (partial(with_one_prompt, 67), (16, 9)),
    "pages of 19": (partial(with_one_prompt, 19), (65, 33, 5)),
    "chunks behind one prompt": (partial(with_one_prompt, 19, chunks=True), (65, 33, 5)),
    "pages of 131": (partial(with_one_prompt, 131), (2, 1)),
    "pages of 259": (partial(with_one_prompt, 259), (1,)),
    "decodes with holes": (partial(holey_decodes, False), QUIET),
    "windows with holes": (partial(holey_decodes, True), QUIET),
    "past the table": (past_the_table, (67, 9)),
    "begun pages": (begun_pages, QUIET),
    "filled pages": (filled_pages, QUIET),
    "first alone": (first_alone, QUIET),
    "last alone": (last_alone, QUIET),
    "idle around": (idle_around, (1_029, 519, 263, 131)),
    "long among idle ones": (long_among_idle, (8_205, 2_053, 261)),
    "uneven": (partial(uneven, 2), (21, 3)),
    "uneven with idle ones": (partial(uneven, 0), (21, 3)),
    "single": (single, LENGTHS),
    "full columns": (full_columns, (1_024, 256)),
    "in windows": (in_windows, WINDOWED),
    **{f"in blocks of {size}": (partial(in_blocks_of, size), LENGTHS) for size in ENGINE_BLOCKS},
    **{f"deep in blocks of {size}": (partial(deep_in_blocks_of, size), DEPTHS) for size in ODD_BLOCKS},
    **{f"in runs of {size}": (partial(in_runs_of, size), (1_029, 261)) for size in (64, 256)},
    **{f"in chunks of {size}": (partial(in_chunks, False), (size,)) for size in LARGE_CHUNKS},
    **{f"in chunks of {size} positions": (partial(in_chunks, True), (size,)) for size in LARGE_CHUNKS},
    **{f"in {n} shares": (in_equal_shares, (n,)) for n in (41, 47)},
    "selections of 512 keys": (partial(selecting, 512), (128, 64)),
    "selections of 2,048 keys": (partial(selecting, 2_048), (72, 16)),
    "items of all workers": (for_all_workers, (264, 132)),
    ROUTED: (partial(routed, (256, 8, 4, 8)), (145, 67)),
    "routed to 64 experts": (partial(routed, (64, 1, 1, 6)), (1_031, 301, 67)),
    "routed to 64 experts in groups that all stay": (partial(routed, (64, 4, 4, 6)), (67, 37)),
    "routed without biases": (partial(routed, (256, 8, 4, 8), logits="zero_bias"), (67, 37)),
    "routed alone": (partial(routed, (256, 8, 4, 8), dtype="bf16"), (1,)),
    "routed in bf16": (partial(routed, (384, 1, 1, 8), dtype="bf16"), (37,)),
    "routed by ties": (partial(routed, (384, 1, 1, 8), logits="ties"), (37,)),
    "routed by NaN": (partial(routed, (256, 8, 4, 8), logits="nan_and_inf"), (67, 37)),
    "routed to 160 experts": (partial(routed, (160, 8, 3, 6)), (67, 37)),
    "routed to 512 experts": (partial(routed, (512, 1, 1, 10)), (131, 67)),
    "routed to 384 experts": (partial(routed, (384, 1, 1, 8)), (131, 67, 37)),
    **{f"in order {order}": (partial(in_order, order), (700, 300)) for order in PAGE_ORDERS},
    **BUSY,
}
"""By name: what builds the case of a size, and the sizes; the first that is not too much is visited."""
OF_TOKENS = ("single", *(name for name in KINDS if name.startswith("routed ")))
"""Those that differ for a function which does not see requests."""

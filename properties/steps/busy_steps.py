"""Steps of busy engines: budgets full of prompts, contexts that are all deep."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from cumae.oracle import Case
from cumae.properties.cases.choices import mixed
from cumae.properties.cases.draws import edited
from cumae.properties.steps.crowds import Lens, uneven_decodes
from cumae.properties.steps.drafted_steps import (
    a_draft_fewer,
    alike_in_tokens,
    deep_drafts,
    long_drafts,
    one_long_draft,
    prompts_between_drafts,
)
from cumae.properties.steps.ladder import Ladder
from cumae.properties.steps.ordinary import beyond_windows, decodes_behind

DEEP = 4_100
"""Cached tokens behind which all requests of a step lie."""
FAR = 66_003
"""Cached tokens of each of a few requests, more than 16 bits count."""
LARGEST_PAGE = 512
"""The largest page of deep contexts; in the largest ones that fit they have the fewest ids."""
CHUNK, WINDOW, GROUP = 64, 512, 4
"""Tokens of a chunk that requests fill, keys of a window that prompts cross, tokens of a compressed key."""


def full_of_prompts(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` new prompts of 512 tokens or more, in chunks of 64 if there are any."""
    cut = ladder.having("chunk_size", CHUNK) or ladder
    return cut.step([("prefill", 0, 513 + mixed(b) % 200) for b in range(count)], seed=count, padding=(0, 0))


def long_prompts(block_size: int, ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` new prompts of 1,024 tokens or more, in pages of one size."""
    if block_size not in ladder.sizes:
        return None
    lens: list[Lens] = [("prefill", 0, 1_025 + mixed(b) % 200) for b in range(count)]
    return ladder.step(lens, seed=count, padding=(0, 0), block_size=block_size)


def across_windows(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` prompts that are longer than a window of 512 keys, between decodes."""
    if (limited := ladder.having("window", WINDOW)) is None:
        return None
    lens = uneven_decodes(9, 65, spread=900)
    lens[3:3] = [("prefill", 100 * (b % 2), 600 + 70 * b) for b in range(count)]
    return limited.step(lens, seed=count, padding=(0, 0))


def deep_and_a_chunk(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes behind 4,096 tokens or more, and two chunks behind 2,048."""
    lens = uneven_decodes(count, DEEP, spread=900)
    lens += [("prefill", 2_050, 600), ("prefill", 2_600, 520)]
    return in_large_pages(ladder, lens, count)


def deep_chunks(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` chunks of 64 tokens or more, each behind 4,096 or more; keys are grouped."""
    lens: list[Lens] = [("prefill", DEEP + mixed(b) % 900, 64 + mixed(b, 1) % 30) for b in range(count)]
    return in_large_pages(ladder.having("compress_ratio", GROUP) or ladder, lens, count)


def all_far(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes, each behind more tokens than 16 bits count."""
    lens: list[Lens] = [("decode", FAR + 611 * b, 1) for b in range(count)]
    return in_large_pages(ladder, lens, count)


def deep_under(option: str, value: int, ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes behind 8,192 tokens or more each, with one value of an option."""
    having = ladder.having(option, value)
    if having is None:
        return None
    lens = uneven_decodes(count, 8_200, spread=900)
    return in_large_pages(having, lens, count)


def one_beyond(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes with context, one of which is behind more than 2^17 tokens."""
    lens = uneven_decodes(count, 65, spread=900)
    lens[count // 2] = ("decode", 140_003, 1)
    return in_large_pages(ladder.unlimited, lens, count)


def prompt_among_many(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes with context, and a prompt of 2,048 tokens or more among them."""
    lens = uneven_decodes(count, 65, spread=200)
    lens.insert(count // 2, ("prefill", 0, 2_055))
    return ladder.step(lens, seed=count, padding=(0, 0))


def in_falling_rows(window: int, ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes whose rows fall one by one, as free rows are popped from the end.

    ``window``: one that some of them are beyond; 0 for any.
    """
    limited = ladder.having("window", window) if window else ladder
    if limited is None:
        return None
    for seed in range(8):
        lens = uneven_decodes(count, 20, spread=90 + 2 * window)
        case = limited.step(lens, seed=seed, padding=(0, 0))
        rows = None if case is None else case.layout.row_index
        if case is not None and rows is not None and min(rows, default=-1) >= 0:
            return edited(case, list(case.batch.requests), tuple(range(len(rows)))[::-1])
    return None


def in_large_pages(
    ladder: Ladder, lens: Sequence[Lens], seed: int, padding: tuple[int, int] = (0, 0)
) -> Case | None:
    """Return a case of these requests in the largest usual pages."""
    size = max((size for size in ladder.sizes if size <= LARGEST_PAGE), default=ladder.usual_block)
    return ladder.step(lens, seed=seed, padding=padding, block_size=size)


BUSY: Mapping[str, tuple[Callable[[Ladder, int], Case | None], Sequence[int]]] = {
    "alike in tokens": (alike_in_tokens, (37, 19)),
    "falling rows": (partial(in_falling_rows, 0), (37, 19)),
    "falling rows in windows": (partial(in_falling_rows, 128), (37, 19)),
    "a budget full of prompts": (full_of_prompts, (17, 9)),
    "prompts across windows": (across_windows, (5,)),
    "deep decodes and chunks": (deep_and_a_chunk, (67, 17)),
    "deep chunks": (deep_chunks, (17, 9)),
    "deep drafts": (deep_drafts, (35, 9)),
    "all far": (all_far, (9, 5)),
    "one beyond 2^17": (one_beyond, (17,)),
    "deep on ranks": (partial(deep_under, "world", 8), (69, 19)),
    "deep in windows": (partial(deep_under, "window", 512), (69, 19)),
    "deep selections": (partial(deep_under, "topk", 512), (69, 19)),
    "long prompts in pages of 64": (partial(long_prompts, 64), (9,)),
    "a prompt among many": (prompt_among_many, (259, 67)),
    "full graphs of 512": (partial(decodes_behind, 65), (512,)),
    "full graphs of 256": (partial(decodes_behind, 65), (256, 128)),
    "full graphs of 128, in windows": (partial(beyond_windows, 128, 130), (128,)),
    "long drafts": (long_drafts, (19, 5)),
    "one long draft": (one_long_draft, (35, 9)),
    "a draft fewer": (a_draft_fewer, (37, 19)),
    "prompts between drafts": (prompts_between_drafts, (35, 9)),
}
"""By name: what builds the case of a size, and the sizes; the first that is not too much is visited."""

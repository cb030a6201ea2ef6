"""Steps in which kinds of requests meet: prompts and drafts, decodes and chunks."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count as count_from
from itertools import islice

from cumae.oracle import Case, Request
from cumae.oracle.model.drafts import num_drafts_of
from cumae.properties.cases.choices import mixed
from cumae.properties.steps.busy_steps import FAR
from cumae.properties.steps.crowds import Lens, uneven_decodes
from cumae.properties.steps.ladder import Ladder
from cumae.properties.steps.served import drafted_decodes

GROUP, BUDGET = 128, 8_300
"""Tokens of a compressed key, and new tokens of a request that fill more than 64 of them."""
WINDOW = 128
"""Keys of a window that prompts are beyond."""
HYBRID, PART = 656, 16
"""Tokens of a page of a hybrid model, and of a block of its kernels."""


def prompts_before_drafts(ladder: Ladder, count: int) -> Case | None:
    """Return a case of three prompts without drafts, and ``count`` decodes that verify three each."""
    verifying = ladder.having("max_drafts", 3) or ladder
    without = (n for n in count_from(256) if num_drafts_of(Request(0, n), 3) == 0)
    lens: list[Lens] = [("prefill", 0, n) for n in islice(without, 3)]
    lens += drafted_decodes(count, 65, spread=100, tokens=4)
    return verifying.step(lens, seed=count, padding=(0, 0))


def decodes_between_chunks(topk: int, ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes of one token between two chunks; a workspace holds their keys."""
    ladder = ladder.having("topk", topk) or ladder
    ladder = ladder.having("prefill_workspace", True) or ladder
    lens = uneven_decodes(count, 65, spread=900)
    return ladder.step([("prefill", 70, 150), *lens, ("prefill", 700, 140)], seed=count, padding=(0, 0))


def decodes_before_deep_chunks(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes, whose keys do not count, before five chunks behind 4,096 tokens."""
    ladder = ladder.having("key_scope", "prefill") or ladder
    ladder = ladder.having("chunk_blocks", 8) or ladder
    lens = uneven_decodes(count, 65, spread=900)
    lens += [("prefill", 4_100 + 131 * i, 20 + i) for i in range(5)]
    return ladder.step(lens, seed=count, padding=(0, 0))


def turns_beside_decodes(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes, and of as many turns of chats behind one prompt of 512 tokens."""
    lens = uneven_decodes(count, 65, spread=900)
    lens += [("prefill", 512, 5 + mixed(b, 1) % 60) for b in range(count)]
    return ladder.unlimited.step(lens, seed=count, padding=(0, 0))


def prompt_in_slots(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes and a prompt of 2,048 tokens or more, in pages of one token."""
    if 1 not in ladder.sizes:
        return None
    lens = uneven_decodes(count, 65, spread=200)
    return ladder.step([*lens, ("prefill", 0, 2_055)], seed=count, padding=(0, 0), block_size=1)


def budget_of_groups(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes and a chunk that fills more than 64 compressed keys."""
    if (grouped := ladder.having("compress_ratio", GROUP)) is None:
        return None
    lens = uneven_decodes(count, 265, spread=900)
    return grouped.step([*lens, ("prefill", 1_100, BUDGET)], seed=count, padding=(0, 0))


def in_parts_of_hybrid_pages(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes behind a page or more of a hybrid model, in small kernel blocks."""
    parts = ladder.having("kernel_block_size", PART)
    if parts is None or HYBRID not in parts.sizes:
        return None
    lens = uneven_decodes(count, 2 * HYBRID, spread=900)
    return parts.step(lens, seed=count, padding=(0, 0), block_size=HYBRID)


def one_far_on_six_ranks(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes on six ranks in runs of 16, one of them behind 66,000 tokens."""
    ranks = ladder.having("world", 6)
    if ranks is None or (runs := ranks.having("interleave", 16)) is None:
        return None
    lens = uneven_decodes(count, 65, spread=900)
    lens[count // 2] = ("decode", FAR, 1)
    return runs.step(lens, seed=count, padding=(0, 0))


def idle_in_wide_rows(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` paused requests with context before a chunk, in rows as models have them."""
    if (rows := ladder.in_rows_of("bf16")) is None:
        return None
    lens: list[Lens] = [("prefill", 40 + 17 * b, 0) for b in range(count)]
    return rows.step([*lens, ("prefill", 30, 20)], seed=count, padding=(0, 0))


def deep_chunk_in_wide_rows(ladder: Ladder, count: int) -> Case | None:
    """Return a case of a chunk of 520 tokens behind ``count`` cached ones, in rows as models have them."""
    rows = ladder.in_rows_of("bf16")
    return None if rows is None else rows.step([("prefill", count, 520)], seed=count, padding=(0, 0))


def arrived_from_elsewhere(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes of two tokens, and of prompts that are cached but for a token."""
    drafting = ladder.having("max_drafts", 1) or ladder
    lens = drafted_decodes(count, 65, spread=900, tokens=2)
    lens += [("prefill", 520 + mixed(b) % 300, 1) for b in range(3)]
    return drafting.step(lens, seed=count, padding=(0, 0))


def arrivals_in_windows(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` prompts that are cached but for a token, beyond a window."""
    limited = ladder.having("window", WINDOW)
    lens: list[Lens] = [("prefill", 520 + mixed(b) % 300, 1) for b in range(count)]
    return None if limited is None else limited.step(lens, seed=count, padding=(0, 0))


MEETING: Mapping[str, tuple[Callable[[Ladder, int], Case | None], Sequence[int]]] = {
    "prompts before drafts": (prompts_before_drafts, (19, 5)),
    "decodes between chunks": (partial(decodes_between_chunks, 64), (19, 9)),
    "decodes between chunks of selections": (partial(decodes_between_chunks, 512), (19, 9)),
    "decodes before deep chunks": (decodes_before_deep_chunks, (17, 5)),
    "arrived from elsewhere": (arrived_from_elsewhere, (13,)),
    "arrivals in windows": (arrivals_in_windows, (17,)),
    "turns beside decodes": (turns_beside_decodes, (19, 5)),
    "a prompt in slots": (prompt_in_slots, (9,)),
    "parts of hybrid pages": (in_parts_of_hybrid_pages, (19, 9)),
    "one far on six ranks": (one_far_on_six_ranks, (33, 9)),
    "idle ones in wide rows": (idle_in_wide_rows, (5,)),
    "a budget of groups": (budget_of_groups, (9,)),
    "a deep chunk in wide rows": (deep_chunk_in_wide_rows, (29_300, 16_400, 2_100)),
}
"""By name: what builds the case of a size, and the sizes; the first that is not too much is visited."""

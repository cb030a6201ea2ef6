"""Steps of several prompts: beyond windows, on ranks, in groups, in chunks by position, beside decodes."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count as count_from
from itertools import islice
from typing import Any

from cumae.oracle import Case, Request
from cumae.oracle.model.drafts import num_drafts_of
from cumae.properties.cases.choices import mixed
from cumae.properties.steps.busy_steps import in_large_pages
from cumae.properties.steps.crowds import Lens
from cumae.properties.steps.engine_steps import SELECTIONS
from cumae.properties.steps.ladder import Ladder
from cumae.properties.steps.served import drafted_decodes

DEEP = 2_050
"""Cached tokens of decodes that see more keys than are selected."""
WORKERS = 148
"""Multiprocessors of a B200, each of which takes work items."""


def _decodes(count: int, cached: int = 65, each: int = 1) -> list[Lens]:
    return drafted_decodes(count, cached, spread=900, tokens=each)


def _prompts(count: int, length: int, cached: int = 0) -> list[Lens]:
    return [("prefill", cached + 131 * b * (cached > 0), length + 37 * b) for b in range(count)]


def prompts_under(
    options: Mapping[str, Any], length: int, cached: int, ladder: Ladder, count: int
) -> Case | None:
    """Return a case of ``count`` prompts of ``length`` tokens or more under these options.

    ``cached``: tokens before the first of them; the others have more. Without any, they begin.
    """
    chosen = ladder.under(**options)
    return None if chosen is None else in_large_pages(chosen, _prompts(count, length, cached), count)


def chunks_in_wide_rows(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` chunks behind 512 tokens or more, in rows as models have them."""
    rows = ladder.in_rows_of("bf16")
    return None if rows is None else in_large_pages(rows, _prompts(count, 64, 530), count)


def beside(
    options: Mapping[str, Any], prompts: Sequence[Lens], is_first: bool, ladder: Ladder, count: int
) -> Case | None:
    """Return a case of prompts before ``count`` decodes, or behind them, under these options."""
    chosen, decodes = ladder.under(**options), _decodes(count)
    lens = [*prompts, *decodes] if is_first else [*decodes, *prompts]
    return None if chosen is None else in_large_pages(chosen, lens, count)


def deep_selections(rest: int, ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes, all of which see more keys than are selected.

    ``rest``: the tokens of a chunk behind them, 0 for none.
    """
    chosen = ladder.under(topk=SELECTIONS["topk"])
    if chosen is None:
        return None
    lens = _decodes(count, DEEP)
    if rest:
        lens.append(("prefill", 2_050, rest))
    return in_large_pages(chosen.preferring(num_workers=WORKERS, split_size=256), lens, count)


def drafts_and_chunks(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes that verify three drafts each, and two chunks without drafts."""
    verifying = ladder.having("max_drafts", 3) or ladder
    without = (n for n in count_from(512) if num_drafts_of(Request(0, n), 3) == 0)
    lens = _decodes(count, each=4)
    lens += [("prefill", 0, n) for n in islice(without, 2)]
    return in_large_pages(verifying, lens, count)


def in_small_pages(block_size: int, cached: int, rest: int, ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes in pages of one size, each behind ``cached`` tokens or more.

    ``rest``: the tokens of a chunk behind them, 0 for none.
    """
    if block_size not in ladder.sizes:
        return None
    lens = _decodes(count, cached)
    if rest:
        lens.append(("prefill", 0, rest))
    whole = ladder.without("kernel_block_size").unlimited
    return whole.step(lens, seed=count, padding=(0, 0), block_size=block_size)


def short_in_large_units(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` prompts of a few tokens each, in large pages and large chunks of rows.

    Their lengths rounded up to whole pages are long together: hundreds of times the tokens of the step.
    """
    lens: list[Lens] = [("prefill", 0, 1 + mixed(b) % 3) for b in range(count)]
    return in_large_pages(ladder.preferring(chunk_size=512), lens, count)


def windows_in_slots(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes beyond a window of 1,024 keys, in pages of one token."""
    limited = ladder.having("window", 1_024)
    if limited is None or 1 not in limited.sizes:
        return None
    return limited.step(_decodes(count, 1_030), seed=count, padding=(0, 0), block_size=1)


_BY_POSITION = {"chunk_size": 64, "absolute_chunks": True}
CROWDS: Mapping[str, tuple[Callable[[Ladder, int], Case | None], Sequence[int]]] = {
    "prompts beyond long windows": (partial(prompts_under, {"window": 1_024}, 1_030, 0), (5,)),
    "prompts on ranks": (partial(prompts_under, {"world": 2}, 520, 0), (5,)),
    "prompts in long groups": (partial(prompts_under, {"compress_ratio": 128}, 1_030, 0), (5,)),
    "deep turns on ranks, in runs": (
        partial(prompts_under, {"world": 8, "interleave": 64}, 20, 8_200),
        (9,),
    ),
    "many chunks by position": (partial(prompts_under, _BY_POSITION, 150, 70), (27, 13)),
    "prompts in chunks, before decodes": (
        partial(beside, {"chunk_size": 64}, _prompts(4, 520), True),
        (67, 19),
    ),
    "a chunk by position, behind decodes": (
        partial(beside, _BY_POSITION | {"chunk_size": 128}, [("prefill", 300, 600)], False),
        (19,),
    ),
    "prefills in a workspace, before decodes": (
        partial(beside, {"prefill_workspace": True}, _prompts(5, 130, 70), True),
        (19,),
    ),
    "deep selections and a chunk": (partial(deep_selections, 520), (67, 35)),
    "deep selections for 148 workers": (partial(deep_selections, 0), (67, 35)),
    "drafts and chunks": (drafts_and_chunks, (67,)),
    "chunks in wide rows": (chunks_in_wide_rows, (9,)),
    "deep decodes in pages of 64": (partial(in_small_pages, 64, DEEP, 0), (131,)),
    "decodes and a chunk in pages of 64": (partial(in_small_pages, 64, 65, 2_055), (67,)),
    "decodes and a chunk in slots": (partial(in_small_pages, 1, 65, 1_030), (35,)),
    "hundreds of decodes in slots": (partial(in_small_pages, 1, 300, 0), (267, 131)),
    "short prompts in large units": (short_in_large_units, (4_099, 1_027, 259)),
    "windows in slots": (windows_in_slots, (35,)),
}
"""By name: what builds the case of a size, and the sizes; the first that is not too much is visited."""

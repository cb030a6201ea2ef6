"""Steps in buffers made for more: tables of the longest context, large workspaces, pools of pages."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from cumae.oracle import Case
from cumae.properties.cases.draws import renamed
from cumae.properties.steps.crowds import uneven_decodes
from cumae.properties.steps.deep_heads import LLAMA
from cumae.properties.steps.full_budgets import with_free_pages
from cumae.properties.steps.ladder import Ladder

FAR = 131_075
"""Cached tokens of one request, for which a table with hundreds of rows has millions of entries."""
COLUMNS, ROWS, BLOCKS, PAGES = 1_040, 2_100, 4_100, 1_100
"""Columns of a table, rows of a workspace, blocks of a pool and pages of heads beside those of a step."""


def with_room(fields: Mapping[str, int], ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes with short contexts and so much room in each of these buffers."""
    lens = uneven_decodes(count, 20, spread=300)
    case = ladder.unlimited.step(lens, seed=count, padding=(0, 0))
    roomy = None if case is None else case.laid_out(**fields)
    return None if roomy is None or ladder.domain.why_not(roomy) is not None else roomy


def among_padding(padding: tuple[int, int], ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes with context, and so many padded tokens and requests."""
    lens = uneven_decodes(count, 65, spread=300)
    return None if ladder.domain.padding == "none" else ladder.step(lens, seed=count, padding=padding)


def in_a_long_table(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes behind 512 tokens or more, in a table of more than 1,024 rows."""
    lens = uneven_decodes(count, 513, spread=300)
    return ladder.step(lens, seed=count, padding=(0, 0), room=(COLUMNS, 0))


def in_free_slots(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes in pages of one token, beside more free ones than 16 bits count."""
    lens = uneven_decodes(count, 65, spread=300)
    plain = ladder.without("world", "window", "missing_blocks", "kernel_block_size")
    case = plain.step(lens, seed=count, padding=(0, 0), block_size=1) if 1 in plain.sizes else None
    return None if case is None else with_free_pages(ladder, case)


def in_a_pool(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes in rows as models have them, in a pool of thousands of blocks."""
    rows = ladder.in_rows_of("bf16")
    return None if rows is None else with_room({"num_spare_blocks": BLOCKS}, rows, count)


def at_the_end_of_a_pool(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes in rows as models have them, whose blocks are the last of thousands.

    The first element of such a block is more than 24 bits count.
    """
    return _behind(BLOCKS, ladder.in_rows_of("bf16"), count)


def at_the_end_of_pages(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes in eight heads, whose pages are the last of a thousand or more."""
    return _behind(PAGES, ladder.under(**LLAMA), count)


def _behind(num_blocks: int, ladder: Ladder | None, count: int) -> Case | None:
    if ladder is None:
        return None
    lens = uneven_decodes(count, 20, spread=100)
    case = ladder.unlimited.step(lens, seed=count, padding=(0, 0))
    moved = None if case is None else renamed(case, num_blocks)
    return None if moved is None or ladder.domain.why_not(moved) is not None else moved


def beside_one_far(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes, the table of which has millions of entries for one long context."""
    lens = uneven_decodes(count - 1, 20, spread=300)
    return ladder.unlimited.step([*lens, ("decode", FAR, 1)], seed=count, padding=(0, 0))


LARGE_BUFFERS: Mapping[str, tuple[Callable[[Ladder, int], Case | None], Sequence[int]]] = {
    "hundreds beside one far": (beside_one_far, (601,)),
    "in a table of the longest context": (
        partial(with_room, {"page_slack": COLUMNS, "num_spare_columns": COLUMNS}),
        (37, 19),
    ),
    "in a large workspace": (partial(with_room, {"key_slack": ROWS}), (19, 9)),
    "in a large pool": (in_a_pool, (67,)),
    "at the end of a pool": (at_the_end_of_a_pool, (9,)),
    "at the end of pages": (at_the_end_of_pages, (9,)),
    "in a long table": (in_a_long_table, (67,)),
    "in many slots": (partial(with_room, {"num_padding_slots": ROWS}), (37,)),
    "in buffers of many requests": (partial(among_padding, (0, 800)), (19,)),
    "in free slots": (in_free_slots, (67,)),
}
"""By name: what builds the case of a size, and the sizes; the first that is not too much is visited."""

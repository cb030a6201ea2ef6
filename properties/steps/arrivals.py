"""Steps as queues fill them: prompts cut to a budget, lengths one apart, families that share a prompt.

Two more are about places: a page that is missing in a row of them, and keys that all lie on one rank.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from cumae.oracle import Case
from cumae.properties.cases.choices import mixed
from cumae.properties.cases.draws import edited
from cumae.properties.steps.crowds import Lens, uneven_decodes
from cumae.properties.steps.ladder import Ladder
from cumae.properties.steps.served import sharing

BUDGET = 1_024
"""A step computes a whole number of so many tokens."""
CHUNK, SPLIT, SELECTED = 64, 64, 256
"""Tokens of a chunk, and keys of a work item and of a selection."""
DEEP = 4_100
"""Cached tokens behind which the last token of a prompt is computed."""
FAMILY = 3
"""Requests of a family; every second one has one more."""
RANKS, RUN = 4, 64
"""Ranks, and positions in a row on each of them."""


def cut_prompts(num_decodes: int, cached: int, ladder: Ladder, count: int) -> Case | None:
    """Return a case of a full budget: decodes, then ``count`` prompts, the last of which is cut to fill it.

    ``cached``: tokens of the first prompt that were computed before.
    """
    decodes: list[Lens] = [("decode", 20 + 11 * b, 1) for b in range(num_decodes)]
    lens = [300 + mixed(b) % 90 for b in range(count - 1)]
    left = -(num_decodes + sum(lens)) % BUDGET or BUDGET
    lens[0] += (left - 1) // 256 * 256  # so that the last one is the shortest
    lens.append(left - (left - 1) // 256 * 256)
    prompts: list[Lens] = [("prefill", cached * (b == 0), n) for b, n in enumerate(lens)]
    cut = ladder.having("chunk_size", CHUNK) or ladder
    return cut.step([*decodes, *prompts], seed=count + num_decodes, padding=(0, 0))


def one_apart(step: int, window: int, ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes of equal prompts, one of which arrived in each step.

    ``step``: 1 if the newest are the first ones, -1 if they are the last. ``window``: 0 for any.
    """
    limited = ladder.having("window", window) if window else ladder
    if limited is None:
        return None
    newest = 70
    lens: list[Lens] = [("decode", newest + (b if step > 0 else count - 1 - b), 1) for b in range(count)]
    return limited.step(lens, seed=count + step, padding=(0, 0))


def a_last_token(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes, and behind them the last token of a long prompt."""
    lens = uneven_decodes(count, 20, spread=90)
    return ladder.unlimited.step([*lens, ("prefill", DEEP, 1)], seed=count, padding=(0, 0))


def tokens_before_a_prompt(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` prompts of one token, which see one key, a decode and a longer prompt.

    Rows of the last two are several work items long.
    """
    lens: list[Lens] = [("prefill", 0, 1)] * count
    return ladder.preferring(topk=SELECTED, split_size=SPLIT).step(
        [*lens, ("decode", 700, 1), ("prefill", 0, 300)], seed=count, padding=(0, 0)
    )


def families(in_turns: bool, ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` requests in families of three or four, each of which shares its own pages.

    They are decodes of one sampled prompt, or of one agent, but for one chunk. ``in_turns``: the members of a
    family stand apart.
    """
    plain = ladder.without("world", "window", "missing_blocks")
    size, num_families = plain.usual_block, max(2 * count // (2 * FAMILY + 1), 2)

    def family_of(b: int) -> int:
        return b % num_families if in_turns else _side_by_side(b)

    def depth_of(b: int) -> int:
        return 2 + family_of(b) % 2

    lens: list[Lens] = [("decode", depth_of(b) * size + mixed(b) % (2 * size), 1) for b in range(count)]
    lens[count // 2] = "prefill", depth_of(count // 2) * size, 9
    case = plain.step(lens, seed=count, block_size=size, padding=(0, 0))
    return None if case is None else sharing(case, depth_of, family_of)


def a_page_missing(ladder: Ladder, count: int) -> Case | None:
    """Return a case of a prompt of ``count`` pages in a row, of which one in the middle is missing."""
    if not ladder.misses_blocks:
        return None
    plain = ladder.without("world", "window")
    case = plain.step([("prefill", 0, count * plain.usual_block)], seed=count, padding=(0, 0))
    if case is None or len(case.batch.requests) != 1:
        return case
    request = case.batch.requests[0]
    first = min((i for i in request.block_ids if i >= 0), default=0)
    ids = [first + i for i in range(len(request.block_ids))]
    ids[len(ids) // 2] = -1
    return edited(case, [replace(request, block_ids=tuple(ids))], case.layout.row_index)


def on_one_rank(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes, whose keys all lie on the first of four ranks and are selected."""
    if (runs := ladder.under(world=RANKS, interleave=RUN, topk=RUN)) is None:
        return None
    ladder = runs.having("prefill_workspace", False) or runs
    lens: list[Lens] = [("decode", RUN - 1 - b % 3, 1) for b in range(count)]
    size = min((size for size in ladder.sizes if size % RUN == 0), default=0)
    seen = ladder.having("rank", 0) or ladder
    return seen.step(lens, seed=count, padding=(0, 0), block_size=size) if size else None


def _side_by_side(b: int) -> int:
    """Return the family of a request: three in the first, four in the second, and so on."""
    pair, place = divmod(b, 2 * FAMILY + 1)
    return 2 * pair + (place >= FAMILY)


ARRIVALS: Mapping[str, tuple[Callable[[Ladder, int], Case | None], Sequence[int]]] = {
    "families": (partial(families, False), (28, 14, 7)),
    "families in turns": (partial(families, True), (14, 7)),
    "a budget cut": (partial(cut_prompts, 0, 0), (9, 3)),
    "a budget cut, continued": (partial(cut_prompts, 0, 512), (5, 3)),
    "a budget cut behind decodes": (partial(cut_prompts, 9, 512), (5, 3)),
    "a budget cut for two": (partial(cut_prompts, 9, 512), (2,)),
    "lengths that fall by one": (partial(one_apart, -1, 0), (37, 19)),
    "lengths that fall by one, in windows": (partial(one_apart, -1, 64), (37, 19)),
    "lengths that rise by one": (partial(one_apart, 1, 0), (37, 19)),
    "a last token behind decodes": (a_last_token, (19, 9)),
    "tokens before a prompt": (tokens_before_a_prompt, (131, 67)),
    "a page missing in a row": (a_page_missing, (9, 3)),
    "all keys on one rank": (on_one_rank, (35, 5)),
}
"""By name: what builds the case of a size, and the sizes; the first that is not too much is visited."""

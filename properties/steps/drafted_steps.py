"""Steps of ordinary size in which requests verify drafts."""

from itertools import count as count_from

from cumae.oracle import Case, Request
from cumae.oracle.model.drafts import num_drafts_of
from cumae.properties.cases.choices import mixed
from cumae.properties.steps.crowds import Lens, uneven_decodes
from cumae.properties.steps.ladder import Ladder
from cumae.properties.steps.served import drafted_decodes, with_drafts

IDLE = 16
"""Idle requests behind others: a tile of them."""
LONG_DRAFT = 48
"""The tokens of a request whose draft is long."""


def drafts_behind(tokens: int, ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes with context, of ``tokens`` each, without padding."""
    verifying = ladder.having("max_drafts", tokens - 1) or ladder
    lens = uneven_decodes(count, 65, spread=100, tokens=tokens)
    return verifying.step(lens, seed=count, padding=(0, 0))


def idle_behind(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes that verify three drafts each, and 16 idle requests behind them."""
    verifying = ladder.having("max_drafts", 3) or ladder
    lens = drafted_decodes(count, 65, spread=100, tokens=4)
    idle: list[Lens] = [("decode", 40 + b, 0) for b in range(IDLE)]
    return verifying.step([*lens, *idle], seed=count, padding=(0, 0))


def drafts_behind_a_prompt(tokens: int, ladder: Ladder, count: int) -> Case | None:
    """Return a case of a prompt without drafts, and behind it ``count`` decodes of ``tokens`` each."""
    verifying = ladder.having("max_drafts", tokens - 1) or ladder
    prompt = next(n for n in count_from(605) if num_drafts_of(Request(0, n), tokens - 1) == 0)
    contexts = [with_drafts(65 + mixed(b) % 100, tokens) for b in range(count)]
    lens: list[Lens] = [("prefill", 0, prompt), *(("decode", n, tokens) for n in contexts)]
    return verifying.step(lens, seed=count, padding=(0, 0))


def dropped_drafts(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes of four tokens each, of which none is a draft."""
    verifying = ladder.having("max_drafts", 3) or ladder
    contexts = [_without_drafts(65 + mixed(b) % 100, 4) for b in range(count)]
    return verifying.step([("decode", n, 4) for n in contexts], seed=count, padding=(0, 0))


def dropped_on_one_side(first: bool, ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes that verify three drafts each, and as many that have none.

    ``first``: those that have none stand first, else last. All have four tokens.
    """
    if (verifying := ladder.having("max_drafts", 3)) is None:
        return None
    dropped: list[Lens] = [("decode", _without_drafts(65 + mixed(b) % 100, 4), 4) for b in range(count)]
    drafts = drafted_decodes(count, 65, spread=100, tokens=4)
    return verifying.step(dropped + drafts if first else drafts + dropped, seed=count, padding=(0, 0))


def drafts_around_a_prompt(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes that verify three drafts before a prompt, and as many behind it.

    The first request has tokens but no draft, and the last has neither.
    """
    verifying = ladder.having("max_drafts", 3) or ladder
    drafts = drafted_decodes(2 * count, 65, spread=100, tokens=4)
    lens: list[Lens] = [("decode", _without_drafts(70, 4), 4), *drafts[:count], ("prefill", 0, 45)]
    return verifying.step([*lens, *drafts[count:], ("decode", 40, 0)], seed=count, padding=(0, 0))


def some_drafts(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` requests: every fifth is idle, the others decode one token or five."""
    verifying = ladder.having("max_drafts", 4) or ladder
    new = [0 if b % 5 == 3 else 1 + 4 * (b % 2) for b in range(count)]
    lens: list[Lens] = [("decode", 65 + mixed(b) % 90, n) for b, n in enumerate(new)]
    return verifying.step(lens, seed=count, padding=(0, 0))


def drafts_around_the_first(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes, an odd number, with as many drafts on average as the first one.

    Pairs of neighbours have one more and one fewer: a step that sums alone take for a uniform one.
    """
    verifying = ladder.having("max_drafts", 4) or ladder
    new = [4, *(3 + 2 * (b % 2) for b in range(count - 1))]
    lens: list[Lens] = [("decode", with_drafts(65 + mixed(b) % 90, n), n) for b, n in enumerate(new)]
    return verifying.step(lens, seed=count, padding=(0, 0))


def long_drafts(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes that verify 9 to 48 tokens each, as where suffixes are drafted."""
    verifying = ladder.having("max_drafts", LONG_DRAFT - 1) or ladder
    new = [9 + mixed(b, 1) % (LONG_DRAFT - 8) for b in range(count)]
    lens: list[Lens] = [("decode", with_drafts(65 + mixed(b) % 90, n), n) for b, n in enumerate(new)]
    return verifying.step(lens, seed=count, padding=(0, 0))


def one_long_draft(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes of one to four tokens each, and one of 48 among them."""
    verifying = ladder.having("max_drafts", LONG_DRAFT - 1) or ladder
    lens: list[Lens] = [("decode", 65 + mixed(b) % 90, 1 + mixed(b, 1) % 4) for b in range(count)]
    lens[count // 3] = ("decode", with_drafts(600, LONG_DRAFT), LONG_DRAFT)
    return verifying.step(lens, seed=count, padding=(0, 0))


def a_draft_fewer(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes that verify four drafts each, or three."""
    verifying = ladder.having("max_drafts", 4) or ladder
    new = [4 + mixed(b, 1) % 2 for b in range(count)]
    lens: list[Lens] = [("decode", with_drafts(65 + mixed(b) % 900, n), n) for b, n in enumerate(new)]
    return verifying.step(lens, seed=count, padding=(0, 0))


def prompts_between_drafts(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes that verify three drafts each, with three prompts between them."""
    verifying = ladder.having("max_drafts", 3) or ladder
    lens = drafted_decodes(count, 65, spread=100, tokens=4)
    for i in (1, 2, 3):
        lens.insert(i * count // 4, ("prefill", 0, 250 + 30 * i))
    return verifying.step(lens, seed=count)


def deep_drafts(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes that verify three drafts each, behind 4,096 tokens or more."""
    verifying = ladder.having("max_drafts", 3) or ladder
    lens = drafted_decodes(count, 4_100, spread=900, tokens=4)
    return verifying.step(lens, seed=count, padding=(0, 0))


def alike_in_tokens(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` requests of four tokens each: verified drafts, chunks and new prompts."""
    verifying = ladder.having("max_drafts", 3) or ladder
    lens = [_of_four(b) for b in range(count)]
    return verifying.step(lens, seed=count, padding=(0, 0))


def _of_four(number: int) -> Lens:
    context = with_drafts(65 + mixed(number) % 100, 4)
    return (("decode", context, 4), ("prefill", context, 4), ("prefill", 0, 4))[number % 3]


def _without_drafts(context: int, tokens: int) -> int:
    """Return the first context from this one on with which a decode of so many tokens has no draft."""
    drafts = tokens - 1
    return next(c for c in count_from(context) if num_drafts_of(Request(c, tokens), drafts) == 0)

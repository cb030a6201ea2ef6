"""The case of requests of given lengths: cut to a domain's promises, in a layout drawn by a seed."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

from cumae.oracle import Batch, Case, Layout, Options, Phase
from cumae.properties.cases.choices import Choices, SeededChoices
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.draws import draw_layout, draw_options, paired
from cumae.properties.cases.limits import within
from cumae.properties.cases.requests import Work, give_blocks, with_holes, without_rows
from cumae.properties.steps.crowds import Lens

Admits = Callable[[int, int, int], bool]
"""Tells whether a case of so many requests, new tokens and keys is to be built."""


class TooLargeError(Exception):
    """A case was not built, because it has more requests, tokens or keys than its caller admits."""


def admits_all(requests: int, tokens: int, keys: int) -> bool:
    """Return that a case of any size is to be built."""
    return True


def sized_case(
    domain: Domain,
    features: Collection[str],
    lens: Sequence[Lens],
    *,
    admits: Admits,
    seed: int,
    block_size: int,
    holes: bool = False,
    **layout: Any,
) -> Case | None:
    """Return the case of these requests, None if they have fewer tokens than the domain promises.

    ``features``: those that may differ from their neutral value. ``holes``: some requests lack blocks in the
    middle of their rows, or a row, where the domain allows it. ``layout``: fields that are not drawn. Raises
    `TooLargeError` if its caller does not admit it.
    """
    choices, world = SeededChoices(seed), domain.settled("world")
    works = _works_of(domain, lens, block_size)
    tokens = sum([query_len for _, _, query_len in works])
    if not admits(len(works), tokens, tokens + sum([context_len for _, context_len, _ in works])):
        raise TooLargeError
    requests = give_blocks(choices, domain, works, block_size * world)
    if holes and domain.missing_blocks and "missing_blocks" in features:
        requests = with_holes(requests)
    batch = Batch(requests, block_size, world)
    if batch.num_tokens < domain.min_tokens:
        return None
    return _held(choices, domain, features, batch, layout, holes=holes)


def _works_of(domain: Domain, lens: Sequence[Lens], block_size: int) -> list[Work]:
    """Return the work of these requests, cut to what a domain promises."""
    works = [_work(domain, *one) for one in lens[: domain.max_requests]]
    works += [_work(domain, "prefill", 0, 1)] * (domain.min_requests - len(works))
    return within(domain, works, block_size * domain.settled("world"))


def _held(
    choices: Choices,
    domain: Domain,
    features: Collection[str],
    batch: Batch,
    changes: dict[str, Any],
    *,
    holes: bool,
) -> Case:
    """Return the case of a batch in a drawn layout with these changes."""
    layout = replace(_whole(domain, draw_layout(choices, domain, batch, features)), **changes)
    if holes and domain.rowless_requests and "row_index" in features:
        layout = without_rows(layout, len(batch.requests))
    room = max(domain.max_tokens - batch.num_tokens, 0)
    most = max(domain.max_requests - len(batch.requests), 0)
    layout = replace(
        layout,
        num_padding_tokens=min(layout.num_padding_tokens, room),
        num_padding_requests=min(layout.num_padding_requests, most),
    )
    layout = paired(layout, domain, batch)
    if not layout.num_padding_requests:
        layout = _for_a_dummy(domain, layout, most)
    options = draw_options(choices, domain, batch, layout, features)
    if _counts_no_key(batch, options) and "all" in domain.among("key_scope", ("all",)):
        options = options.having(key_scope="all")
    return Case(batch, layout, options)


def _whole(domain: Domain, layout: Layout) -> Layout:
    """Return the layout with buffers that hold all keys and pages, where a domain has such."""
    cut = [name for name in ("key_slack", "page_slack") if getattr(layout, name) < 0]
    return layout.having(**{name: 0 for name in cut if 0 in domain.among(name, (0,))})


def _counts_no_key(batch: Batch, options: Options) -> bool:
    """Return whether only keys of prefills count in a batch that has none."""
    return options.keys.key_scope == "prefill" and all(r.phase == "decode" for r in batch.requests)


def _for_a_dummy(domain: Domain, layout: Layout, most: int) -> Layout:
    """Return the layout, with a padded request if a promised dummy request must take padding tokens.

    Without room for it there are no padding tokens.
    """
    if not layout.num_padding_tokens or not domain.settled("dummy_request"):
        return layout
    return replace(layout, num_padding_requests=1) if most else replace(layout, num_padding_tokens=0)


def _work(domain: Domain, phase: Phase, context_len: int, query_len: int) -> Work:
    if phase not in domain.phases:
        phase = domain.phases[0]
    least = 0 if domain.empty_requests else 1
    context_len = min(max(context_len, int(phase == "decode")), domain.max_context_len)
    return Work(phase, context_len, min(max(query_len, least), domain.max_query_len))

"""Steps put together from aspects: how many requests of which kinds, in which order, how long, how padded.

A fast path holds where two or three aspects come together, and no list of steps has all of these. Here each
aspect of a step is chosen by itself, and most steps have few requests, all of ordinary lengths.
"""

from collections.abc import Callable, Mapping, Sequence

from cumae.oracle import Case
from cumae.properties.cases.choices import mixed
from cumae.properties.steps.crowds import Lens
from cumae.properties.steps.models import Of, Served
from cumae.properties.steps.served import drafting, sharing, with_drafts

COUNTS = (1, 1, 1, 2, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 32, 33, 48, 64, 65, 128, 131, 261)
"""Requests: a few, whole tiles of them, and one more."""
BETWEEN, UNIT = 300, 8
"""Two fifths of the steps have any number of requests up to this one, or a multiple of eight of them."""
TOKENS = (2, 2, 3, 4, 4, 5, 8, 16, 64)
"""New tokens of a verified draft."""
MIXES: Mapping[str, Callable[[int, int, int], str]] = {
    "decodes": lambda b, place, bits: "decode",
    "drafts": lambda b, place, bits: "draft",
    "drafts but one": lambda b, place, bits: "decode" if b == place else "draft",
    "some drafts": lambda b, place, bits: "draft" if bits % 3 else "decode",
    "decodes and a chunk": lambda b, place, bits: "chunk" if b == place else "decode",
    "drafts and a prompt": lambda b, place, bits: "prompt" if b == place else "draft",
    "decodes and prompts": lambda b, place, bits: "prompt" if b == place or bits % 8 == 0 else "decode",
    "chunks": lambda b, place, bits: "chunk",
    "prompts": lambda b, place, bits: "prompt",
    "all kinds": lambda b, place, bits: ("decode", "draft", "chunk", "prompt")[bits % 4],
    "decodes and chunks in turns": lambda b, place, bits: "chunk" if b % 2 else "decode",
    "any drafts": lambda b, place, bits: "any draft",
}
"""By name: the kind of a request, by its number, a place among them, and bits of its own."""
USUAL = ("decodes", "decodes", "decodes", "drafts", "decodes and a chunk", "prompts", *MIXES)
"""The mixes, those of most steps several times."""
ORDERS: Mapping[str, Callable[[Lens], int]] = {
    "as they come": lambda lens: 0,
    "decodes first": lambda lens: lens[0] != "decode",
    "prefills first": lambda lens: lens[0] == "decode",
    "contexts rise": lambda lens: lens[1],
    "contexts fall": lambda lens: -lens[1],
    "new tokens rise": lambda lens: lens[2],
    "new tokens fall": lambda lens: -lens[2],
}
"""By name: the key by which requests are sorted."""
EQUAL = (33, 512, 1_023, 2_048)
"""Lengths that all requests have."""
FAR = 9_001
FULL, MOST_CACHED, MOST_NEW = 261, 300_000, 4_800
"""Cached and new tokens of a step that may have so many requests; fewer in one that may have fewer."""
IDLE: Sequence[Lens | None] = (*(None,) * 6, ("decode", 1_088, 0), ("prefill", 0, 0))
"""Requests without a new token among the others, None for no request."""
MOST_DRAFTED = 8
"""New tokens of a request with any number of drafts."""
BUDGETS = (1, 1, 64, 512, 2_048)
"""The tokens of a step with a prefill are a multiple of one of these."""


def composed(model: Served, most: int) -> Case | None:
    """Return a case of at most ``most`` requests and an idle one, whose aspects the model's turn chooses.

    A smaller ``most`` also allows fewer tokens: a step that is too much work is built again with both.
    """
    count = _count(model, most)
    place = model.pick(Of.PLACE, (0, count // 2, count - 1, min(1, count - 1), max(count - 2, 0)))
    kind_of, tokens = MIXES[model.pick(Of.MIX, USUAL)], model.pick(Of.TOKENS, TOKENS)
    lens = [_lens(model, b, kind_of(b, place, mixed(b, 5)), tokens) for b in range(count)]
    if (idle := model.pick(Of.IDLE, IDLE)) is not None and count > 1:
        every = model.pick(Of.IDLE_EVERY, (count, count, 5))
        for at in range(place, len(lens), every):
            lens.insert(at, idle)
    lens = _capped(lens, MOST_CACHED * most // FULL, MOST_NEW * most // FULL)
    lens = sorted(lens, key=model.pick(Of.ORDER, tuple(ORDERS.values())))
    fill = model.pick(Of.FILL, (_longer, _shorter))
    lens = fill(lens, model.pick(Of.BUDGET, BUDGETS))
    dummy = model.pick(Of.DUMMY, (False, False, False, True))
    model = drafting(model, tokens).having("dummy_request", True) if dummy else drafting(model, tokens)
    case = model.step(lens, model.turn, _padding(model, lens))
    depth = model.pick(Of.SHARING, (0, 0, 0, 1, 2))
    family_of = model.pick(Of.FAMILY, (lambda b: 0, lambda b: b // 3, lambda b: b % 2))
    return case if case is None or not depth else sharing(case, lambda b: depth, family_of)


def _lens(model: Served, b: int, kind: str, tokens: int) -> Lens:
    """Return the lengths of a request of one kind."""
    if kind == "decode":
        return "decode", _context(model, b), 1
    if kind == "any draft":
        return "decode", _context(model, b), 1 + mixed(b, 4) % MOST_DRAFTED
    if kind == "draft":
        context = _context(model, b)
        return (
            "decode",
            with_drafts(context, tokens) if model.pick(Of.ALL_DRAFTS, (True, False)) else context,
            tokens,
        )
    new = _new_tokens(model, b)
    if kind == "prompt":
        return "prefill", 0, new
    behind = model.pick(Of.BEHIND, ("any", "pages", "a multiple", "a multiple"))
    if behind == "any":
        return "prefill", _context(model, b), new
    unit = new if behind == "a multiple" else model.block_size * model.world
    return "prefill", unit << mixed(b, 6) % 5, new


def _context(model: Served, b: int) -> int:
    """Return the cached tokens of a request, in the way of the step."""
    bits, near = mixed(b, model.turn + 7), model.near
    one_far = b == model.pick(Of.PLACE, (0, 1, 2))
    return model.pick(
        Of.CONTEXT,
        (
            1 + bits % 40,
            64 + bits % 700,
            64 + bits % 700,
            300 + bits % 2_000,
            near - 3 + bits % 6,
            near + 1 + bits % 900,
            4_096 + bits % 3_000,
            4_096 + bits % 3_000,
            8_200 + bits % 2_000,
            16_390 + bits % 9_000,
            FAR if one_far else 40 + bits % 300,
            model.pick(Of.LENGTH, EQUAL),
            model.block_size * model.world * (1 + bits % 5),
            100 + 7 * b,
            70 + b,
            400 - b,
        ),
    )


def _new_tokens(model: Served, b: int) -> int:
    """Return the new tokens of a chunk or a prompt, in the way of the step."""
    bits = mixed(b, model.turn + 8)
    return model.pick(
        Of.NEW,
        (
            1,
            3 + bits % 30,
            33 + bits % 96,
            128 + bits % 300,
            513 + bits % 400,
            1_030 + bits % 90,
            2_050 + bits % 900,
            model.pick(Of.LENGTH, (70, 128, 256, 512)),
            (64, 256, 512)[bits % 3],
            150 + 3 * b,
        ),
    )


def _count(model: Served, most: int) -> int:
    """Return the number of requests: one of some, any, or a multiple of eight."""
    one = model.pick(Of.COUNT, [n for n in COUNTS if n <= most])
    between = model.pick(Of.COUNT, range(1, min(most, BETWEEN) + 1))
    return model.pick(Of.SPREAD, (one, one, one, between, between // UNIT * UNIT or between))


def _capped(lens: list[Lens], cached: int, new: int) -> list[Lens]:
    """Return the requests with so few tokens that all have about so many cached and new ones at most."""
    count, long = len(lens), sum(query > MOST_DRAFTED for _, _, query in lens)
    share = max(new // max(long, count // MOST_DRAFTED, 1), 1)
    found: list[Lens] = []
    for b, (phase, context, query) in enumerate(lens):
        most = context if context == FAR else max(cached // count - b % 16, 1)
        found.append((phase, min(context, most), min(query, share)))
    return found


def _longer(lens: list[Lens], unit: int) -> list[Lens]:
    """Return the requests with as many more tokens of the longest prefill as make a multiple of a unit."""
    longest = max(range(len(lens)), key=lambda b: lens[b][2])
    phase, context, new = lens[longest]
    if phase == "prefill" and new:
        lens[longest] = phase, context, new + -sum(one[2] for one in lens) % unit
    return lens


def _shorter(lens: list[Lens], unit: int) -> list[Lens]:
    """Return the requests with so many fewer tokens of the last prefill that a multiple of a unit is left."""
    phase, context, new = lens[-1]
    more = sum(one[2] for one in lens) % unit
    if phase == "prefill" and new > more:
        lens[-1] = phase, context, new - more
    return lens


def _padding(model: Served, lens: Sequence[Lens]) -> tuple[int, int]:
    """Return padded tokens and requests: none, as in a captured graph, whole tiles of tokens, or many."""
    count, tokens, most = len(lens), sum(one[2] for one in lens), max(one[2] for one in lens)
    padded = -count % model.captured
    graph = (max((count + padded) * most - tokens, 0), padded) if most <= max(TOKENS) else (9, 7)
    return model.pick(Of.PADDING, ((0, 0), (0, 0), graph, graph, (-tokens % 64, 0), (1_100, 1), (3, 2)))

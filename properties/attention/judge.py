"""Attention as the validator of metadata: computed through right ones, it equals dense attention."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from math import sqrt
from typing import NamedTuple

from cumae.oracle import Case
from cumae.oracle.attention import (
    LATENT_DIM,
    QUERY_SCALE,
    Vector,
    attention_row,
    dense_attention,
)
from cumae.oracle.model.rules import require_choice
from cumae.properties.attention.answers import ROW_DIM, Answer, right_answers
from cumae.properties.attention.parts import Memory, OutOfReach, Part
from cumae.properties.attention.routes import ROUTES, WRITES, Route
from cumae.properties.attention.step import Step, prefill_rows

HIGHEST_SCORE = sqrt(ROW_DIM) * QUERY_SCALE
"""Bound of a score: lengths of query (√ROW_DIM * QUERY_SCALE) and key (√ROW_DIM), over √ROW_DIM."""


class Fault(NamedTuple):
    """A place where attention through the metadata differs from dense attention.

    ``operations``: those of the route. ``error`` is nan if there is no number.
    """

    route: str
    operations: tuple[str, ...]
    request: int
    position: int
    row: int
    expected: Vector
    actual: Vector
    error: float
    bound: float
    keys: str

    def __str__(self) -> str:
        if self.row < 0:
            return f"{self.route}: {self.keys} (by {', '.join(self.operations)})"
        where = f"request {self.request}, position {self.position}, row {self.row}"
        values = f"attention is {_shown(self.actual)}, must be {_shown(self.expected)}"
        within = f"off by {self.error:.1e}, {self.bound:.1e} allowed"
        return (
            f"{where}: {values} ({within}) over {self.route}: {self.keys} (by {', '.join(self.operations)})"
        )


class Judged(NamedTuple):
    """The result of a case: ``faults``, the number of compared ``rows``, the largest error over its bound."""

    faults: list[Fault]
    rows: int
    worst: float


def judge(
    case: Case, answers: Mapping[str, Answer] | None = None, previous: Case | None = None
) -> list[Fault]:
    """Return the faults of attention computed through the operations' answers, against dense attention.

    ``answers``: replacements for the oracles of operations, ``answer_of(function)`` or
    ``kernel_answer(function, operation, device)``; ``previous``: the step before, for operations that
    keep state. Raises ``ValueError`` for an operation that attention does not depend on.

    >>> from cumae.oracle import Batch, PositionIds, Request
    >>> from cumae.properties.attention import answer_of
    >>> case = Case(Batch((Request(2, 1, (5,), "decode"), Request(0, 0), Request(0, 2, (3,))), 4))
    >>> judge(case)
    []
    >>> first, *_ = judge(case, {"position_ids": answer_of(lambda: PositionIds([0, 0, 1]))})
    >>> first.request, first.position, first.operations[:3]
    (0, 2, ('slot_mapping', 'cache_write', 'position_ids'))
    """
    return judged(case, answers, previous).faults


def judged(
    case: Case,
    answers: Mapping[str, Answer] | None = None,
    previous: Case | None = None,
    *,
    through: Collection[str] | None = None,
    streams: Sequence[Sequence[int]] | None = None,
    memories: Sequence[Memory] | None = None,
) -> Judged:
    """Return the result of a case over every route that fits it, with the first fault of each route.

    ``through``: only routes through one of these operations. ``streams``, ``memories``: those of ``Step``.
    """
    asked = [*WRITES] if through is None else through
    right = right_answers()
    for name in answers or {}:
        require_choice("answers", name, tuple(right))
    try:
        step = Step(case, {**right, **(answers or {})}, previous, streams, memories)
    except (OutOfReach, IndexError) as error:
        return Judged([_lost("the step", WRITES, str(error))], 0, 0.0)
    faults, rows, worst = [], 0, 0.0
    dense = Dense(step)
    for route in ROUTES:
        operations = (*WRITES, *route.operations)
        if not route.fits(case) or not set(asked) & set(operations):
            continue
        wanted = _tokens_of(step, route)
        try:
            reached = dict(route.rows(step))
            found = [_compared(step, dense, route, row, reached.get(row)) for row in wanted]
        except (OutOfReach, IndexError) as error:
            faults.append(_lost(route.name, operations, str(error)))
            continue
        rows += len(found)
        worst = max([worst, *(fault.error / fault.bound for fault in found)])
        faults += [fault for fault in found if not fault.error <= fault.bound][:1]
    return Judged(faults, rows, worst)


def error_bound(num_keys: int, num_parts: int) -> float:
    """Return the largest allowed difference of two float64 computations of one row of values up to 1.

    ``num_keys`` keys in ``num_parts`` parts; ``attention.md`` derives it.
    """
    return 2.0**-53 * (7 * (ROW_DIM + 6) * (HIGHEST_SCORE + 1) + 20 * num_keys + 3 * num_parts)


def _tokens_of(step: Step, route: Route) -> list[int]:
    """Return the rows that a route must compute."""
    if route.of == "next":
        return [step.case.num_tokens_padded + b for b in range(len(step.batch.requests))]
    if route.of == "whole lists" and step.case.options.keys.window:
        return [row for row, (b, own) in enumerate(step.tokens) if own + 1 == step.batch.requests[b].seq_len]
    if route.of == "prefill" or (route.of == "scope" and step.case.options.keys.key_scope == "prefill"):
        return prefill_rows(step)
    return list(range(len(step.tokens)))


class Dense:
    """The reference side: dense attention of a row over the keys that a route sees, computed once."""

    def __init__(self, step: Step) -> None:
        self._step = step
        self._known: dict[tuple[str, int], tuple[Sequence[int], Vector]] = {}

    def row(self, sees: str, row: int) -> tuple[Sequence[int], Vector]:
        """Return the positions seen and the output of attention over them."""
        if (sees, row) not in self._known:
            self._known[sees, row] = self._computed(sees, row)
        return self._known[sees, row]

    def _computed(self, sees: str, row: int) -> tuple[Sequence[int], Vector]:
        step, options = self._step, self._step.case.options
        b, position = step.place(row)
        stream = step.streams[b][: position + 1]
        if sees == "selected":
            selected = step.inputs("topk_to_slots")["topk_indices"][row][: options.selection.topk]
            seen = [p for p in selected if isinstance(p, int)]
            return seen, attention_row(stream, position, seen)
        window = options.keys.window if sees == "window" else 0
        ratio = options.keys.compress_ratio if sees == "compressed" else 1
        (expected,) = dense_attention(stream, position, window, ratio)
        return range(max(0, position + 1 - window) if window else 0, position + 1), expected


def _compared(step: Step, dense: Dense, route: Route, row: int, parts: Sequence[Part] | None) -> Fault:
    b, position = step.place(row)
    seen, expected = dense.row(route.sees, row)
    actual = step.output(row, parts or [Part([])])
    errors = [abs(x - y) for x, y in zip(expected, actual, strict=True)]
    error = next((e for e in errors if e != e), max(errors))
    bound = error_bound(len(seen), len(parts or ()))
    told = "" if error <= bound else _difference(step, b, seen, parts, route.sees == "compressed")
    place = row if row < len(step.tokens) else -1
    operations = (*WRITES, *route.operations)
    if place < 0:
        told = f"the token after request {b}'s last, at position {position}, reads {told or 'all'}"
    return Fault(route.name, operations, b, position, place, expected, actual, error, bound, told)


def _difference(
    step: Step, b: int, seen: Sequence[int], parts: Sequence[Part] | None, compressed: bool
) -> str:
    """Return in words which keys were read wrongly and which were missed."""
    if parts is None:
        return "no kernel computes this row"
    if compressed:
        return f"{sum(len(part.keys) for part in parts)} compressed keys are read"
    wanted = Counter((step.streams[b][p], p) for p in seen)
    read = Counter((key.token, key.position) for part in parts for key in part.keys)
    lacks = sorted(p for _, p in (wanted - read).elements())
    beyond = [_whose(step, *key) for key in (read - wanted).elements()]
    wrong = [f"lacks the keys of positions {_few(lacks)}"] if lacks else []
    wrong += [f"reads {_few(beyond)}"] if beyond else []
    return " and ".join(wrong) or "the keys are right, but the query or the merge is wrong"


def _whose(step: Step, token: int, position: int) -> str:
    if token < 0:
        return "unwritten memory"
    owners = [(b, stream.index(token)) for b, stream in enumerate(step.streams) if token in stream]
    b, place = owners[0]
    turned = "" if place == position else f", rotated as if at {position}"
    return f"request {b}'s key of position {place}{turned}"


def _few(items: Sequence[object]) -> str:
    return ", ".join(map(str, items[:4])) + (", …" if len(items) > 4 else "")


def _shown(values: Vector) -> str:
    return "[" + ", ".join(f"{value:.4f}" for value in values) + "]"


def _lost(route: str, operations: tuple[str, ...], told: str) -> Fault:
    nothing = (float("nan"),) * LATENT_DIM
    return Fault(route, operations, -1, -1, -1, nothing, nothing, float("nan"), 0.0, told)

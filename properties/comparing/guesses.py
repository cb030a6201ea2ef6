"""The answers of kernels with known faults, from the oracle with one input replaced."""

from collections.abc import Callable, Sequence
from typing import Any

from cumae.oracle import GARBAGE, Case
from cumae.properties.comparing.cause import Guess

MOST_TOKENS = 10_000
_ASSUMED_SIZES = (1, 16, 32, 64, 128)
Ask = Callable[[dict[str, Any]], Sequence[Any] | None]
"""Returns the oracle's output with some of its inputs replaced; None if the oracle refuses them."""


def guesses_for(
    case: Case,
    expected: Sequence[Any],
    ask: Ask,
    inputs: Any,
    per_token: int,
    table: tuple[str, Sequence[int]],
) -> list[Guess]:
    """Return the answers of kernels with known faults: the oracle with one input replaced.

    ``per_token``: elements for each token, 0 if the output does not count tokens. ``table``: the name of
    the input with the table row of each request, and the rows.
    """
    if case.num_tokens_padded > MOST_TOKENS:
        return []
    asked = (*_replacements(case, inputs, *table), *_of_selection(case, inputs), *_of_chunks(inputs))
    changed = [(cause, ask(replaced)) for cause, replaced in asked]
    # With other chunk lengths there may be more chunks than the buffer holds: a kernel writes the first ones.
    guesses = [Guess(cause, values[: len(expected)]) for cause, values in changed if values is not None]
    prefills = zip(inputs["query_lens"], inputs["is_prefill"], strict=True)
    values = ask({"is_prefill": [n > 1 and bool(prefill) for n, prefill in prefills]})
    if values is not None:
        guesses.append(Guess("a prefill of one token is taken for a decode", values, explains_zeros=True))
    guesses = [guess for guess in guesses if len(guess.values) == len(expected)]
    if per_token:
        guesses += _per_token(case, expected, per_token)
    return guesses


def _replacements(
    case: Case, inputs: Any, row_name: str, held_rows: Sequence[int]
) -> list[tuple[str, dict[str, Any]]]:
    """Return known faults, each with the replaced inputs that a kernel with it computes from."""
    contexts = inputs["context_lens"]
    found: list[tuple[str, dict[str, Any]]] = []
    found.append(("the context is left out", {"context_lens": [0] * len(contexts)}))
    found.append(("counts twice: the context is added twice", {"context_lens": [2 * n for n in contexts]}))
    rows = inputs["row_index"]
    live = len(case.batch.requests)
    for name, values, what in (("context_lens", contexts, "context"), ("row_index", rows, "table row")):
        head, tail = list(values[:live]), list(values[live:])
        moved = (
            ("of the request before", head[:1] + head[:-1]),
            ("of the request after", head[1:] + head[-1:]),
            ("of request 0 for all", head[:1] * live),
        )
        found += [(f"neighbour: the {what} {whose}", {name: taken + tail}) for whose, taken in moved]
    row_of = dict(zip(held_rows, rows[:live], strict=True))
    by_index = [row_of.get(b, -1) for b in range(live)] + list(rows[live:])
    cause = f"the batch index is used instead of the request's table row ({row_name})"
    found.append((cause, {"row_index": by_index}))
    size, kernel_size = case.batch.block_size, case.kernel_block_size
    if size != kernel_size:
        cause = f"block size of the other role: {size} (manager) instead of {kernel_size} (kernel)"
        found.append((cause, {"kernel_block_size": size}))
    for other in _ASSUMED_SIZES:
        if other not in (size, kernel_size):
            cause = f"block size {other} is used instead of {kernel_size}"
            found.append((cause, {"kernel_block_size": other}))
    window = case.options.keys.window
    if window > 0:
        found.append(("off by one: the window is one key too long", {"window": window + 1}))
    if window > 1:
        found.append(("off by one: the window is one key too short", {"window": window - 1}))
    return found


def _of_selection(case: Case, inputs: Any) -> list[tuple[str, dict[str, Any]]]:
    """Return faults in looking up selected positions: a wrong row, wrong positions, a wrong place.

    An unchanged input beside a replaced one restricts the fault to the oracle that takes both.
    """
    owners, last = inputs["token_to_request"], len(case.batch.requests) - 1
    found: list[tuple[str, dict[str, Any]]] = []
    for whose, taken in (
        ("of the request before", [max(b - 1, min(b, 0)) for b in owners]),
        ("of the request after", [min(b + 1, last) if b >= 0 else b for b in owners]),
        ("of request 0 for all", [min(b, 0) for b in owners]),
    ):
        found.append((f"neighbour: the table row {whose}", {"token_to_request": taken}))
    # Some engines hold -1 for positions that a request does not have, and never select them.
    own, selected = inputs["position_ids"], inputs["selected_positions"]
    as_held = [[0 if p in (-1, GARBAGE) else p for p in row] for row in selected]
    in_sight = [[p if p <= own[t] else 0 for p in row] for t, row in enumerate(as_held)]
    for held in (as_held, in_sight):
        found.append(("-1 (no position) is looked up as position 0", {"selected_positions": held}))
    for other in (size for size in _ASSUMED_SIZES if size != case.batch.block_size):
        cause = f"block size {other} is used instead of {case.batch.block_size}"
        found.append((cause, {"block_size": other, "selected_positions": selected}))
    starts = inputs["workspace_starts"]
    if starts is not None:
        found.append(("the start in the workspace is left out", {"workspace_starts": [0] * len(starts)}))
        cache = {"workspace_ids": None, "workspace_starts": None}
        found.append(("tokens read the cache, not the workspace", cache))
    return found


def _of_chunks(inputs: Any) -> list[tuple[str, dict[str, Any]]]:
    """Return faults in cutting contexts into chunks: a wrong share of the workspace, partial blocks."""
    room, num_requests = inputs["workspace_tokens"], len(inputs["context_lens"])
    shared = room // max(num_requests, 1) * inputs["num_with_context"]
    cause = "the workspace is divided among all requests, not only those with context"
    return [
        (cause, {"workspace_tokens": shared}),
        ("a chunk ends inside a block", {"block_size": 1, "workspace_tokens": room}),
    ]


def _per_token(case: Case, expected: Sequence[Any], per_token: int) -> list[Guess]:
    """Return faults in the value of one token: a term left out, wrong rounding, a neighbour's value."""
    tokens = [
        (b, i, request.context_len, request.context_len + i)
        for b, request in enumerate(case.batch.requests)
        for i in range(request.query_len)
        for _ in range(per_token)
    ]
    rest = list(expected[len(tokens) :])
    size, ratio = case.kernel_block_size, case.options.keys.compress_ratio
    live = list(zip(expected, tokens, strict=False))
    as_id = [-size + p % size if e == -1 else e for e, (_, _, _, p) in live]
    found = [
        Guess("the context is left out", [e - context for e, (_, _, context, _) in live] + rest),
        Guess("-1 wrapped: it is used as a block id", as_id + rest),
    ]
    found += rounding_guesses(expected, [(p + 1, ratio) for _, _, _, p in tokens])
    starts = {b: j for j, (b, i, _, _) in reversed(list(enumerate(tokens))) if i == 0}
    for step, side in ((-1, "before"), (1, "after")):
        values = list(expected)
        for j, (b, i, _, _) in enumerate(tokens):
            k = starts.get(b + step, len(tokens)) + j - starts[b]
            if k < len(tokens) and tokens[k][:2] == (b + step, i):
                values[j] = expected[k]
        found.append(Guess(f"neighbour: the value of the request {side}, at the same place", values, 2))
    return found


def rounding_guesses(expected: Sequence[int], quotients: Sequence[tuple[int, int]]) -> list[Guess]:
    """Return the outputs with each element's quotient rounded toward zero, and up, instead of down.

    >>> [guess.values for guess in rounding_guesses([-2, 1], [(-3, 2), (3, 2)])]
    [[-1, 1], [-1, 2]]
    """
    if len(quotients) > len(expected) or all(a % b == 0 for a, b in quotients):
        return []
    rest = list(expected[len(quotients) :])
    toward_zero = [e + (a % b != 0 and a < 0) for e, (a, b) in zip(expected, quotients, strict=False)]
    up = [e + (a % b != 0) for e, (a, b) in zip(expected, quotients, strict=False)]
    found = [Guess("a quotient is truncated toward zero, not rounded down", toward_zero + rest)]
    return [*found, Guess("a quotient is rounded up, not down", up + rest)]

"""A guess at why an output is wrong: the known fault that gives exactly the values that were seen."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from cumae.oracle import Case

MOST_CAUSES = 2
MOST_TOKENS = 10_000
_OR = ", or "
_ASSUMED_SIZES = (1, 16, 32, 64, 128)
Ask = Callable[[dict[str, Any]], Sequence[Any] | None]
"""Returns a whole output as the oracle gives it with some of its inputs replaced; None where it cannot."""


class Guess(NamedTuple):
    """A fault in words, and the whole output of a kernel that has it.

    ``distinct``: how many different wrong values must fit before it is more than a coincidence.
    ``explains_zeros``: whether it is more than one where all wrong values are 0.
    """

    cause: str
    values: Sequence[Any]
    distinct: int = 1
    explains_zeros: bool = False


class Extent(NamedTuple):
    """Elements before the padding, and elements up to the padded count; the buffer may be longer."""

    num_live: int
    num_padded: int


class Evidence(NamedTuple):
    """What a cause is judged by, as ``likely_cause`` takes it."""

    expected: Sequence[Any]
    actual: Sequence[Any]
    wrong: Sequence[int]
    extent: Extent | None = None
    guesses: Sequence[Guess] = ()
    stale: Sequence[int] = ()


def likely_cause(
    expected: Sequence[Any],
    actual: Sequence[Any],
    wrong: Sequence[int],
    extent: Extent | None = None,
    guesses: Sequence[Guess] = (),
    stale: Sequence[int] = (),
) -> str:
    """Return the fault that explains every wrong element, two joined by "or", or "" where none can be told.

    ``expected``, ``actual``: the whole output as integers; ``wrong``: indices that differ.
    ``stale``: values that nobody wrote. Without ``extent`` only what the values alone prove is said.

    >>> likely_cause([5, 2**31 + 4], [5, 4 - 2**31], [1])
    '32-bit wrap-around: the value passes 2^31 and was computed or stored in 32 bits'
    >>> likely_cause([3, 4, 5], [4, 4, 6], [0, 2], extent=Extent(3, 3))
    'off by one: 1 too large'
    >>> likely_cause([3, 4, 5], [9, 4, 2], [0, 2], extent=Extent(3, 3))
    ''
    """
    pairs = [(expected[i], actual[i]) for i in wrong]
    for cause, holds in _PROOFS:
        if all(holds(*pair) for pair in pairs):
            return cause
    if all(found in stale for _, found in pairs):
        return "stale: what was in memory before the call, never written"
    if extent is None:
        return ""
    if wrong[0] >= extent.num_live:
        values = {found for _, found in pairs}
        held = f"holds {min(values)}" if len(values) == 1 else "is wrong"
        return padding_cause(wrong, extent, len(expected), held)
    if not any(found for _, found in pairs):
        return _cause_of_zeros(expected, wrong, extent.num_live, guesses)
    fitting = [guess for guess in guesses if _fits(guess, expected, actual, wrong)]
    exact = [guess for guess in fitting if _num_wrong(guess, expected) == len(wrong)]
    causes = list(dict.fromkeys(guess.cause for guess in exact or fitting))
    if not exact or len(wrong) >= extent.num_live:  # which elements are right tells more than a difference
        causes = list(dict.fromkeys([*causes, *_arithmetic(pairs)]))
    causes = causes or _shifted(expected, actual, wrong, extent.num_live)
    return _OR.join(causes) if len(causes) <= MOST_CAUSES else ""


def _cause_of_zeros(
    expected: Sequence[Any], wrong: Sequence[int], num_live: int, guesses: Sequence[Guess]
) -> str:
    """Return the fault that gives exactly these zeros beside values that are right: zeros fit too many."""
    if not any(expected[i] for i in set(range(num_live)).difference(wrong)):
        return ""
    causes = {
        guess.cause
        for guess in guesses
        if guess.explains_zeros
        and [i for i, (a, b) in enumerate(zip(guess.values, expected, strict=True)) if a != b] == list(wrong)
    }
    return causes.pop() if len(causes) == 1 else ""


def is_possible(cause: str, seen: Evidence) -> bool:
    """Whether a cause that was told elsewhere, or each of two, gives the values that were seen here.

    >>> is_possible("off by one: 1 too small", Evidence([1], [0], [0]))
    True
    """
    pairs = [(seen.expected[i], seen.actual[i]) for i in seen.wrong]
    fitting = [
        guess.cause for guess in seen.guesses if all(guess.values[i] == seen.actual[i] for i in seen.wrong)
    ]
    return set(cause.split(_OR)) <= {*fitting, *_arithmetic(pairs)}


def padding_cause(wrong: Sequence[int], extent: Extent, total: int, held: str) -> str:
    """Return what is wrong with the padding where the wrong elements are the padding, else "".

    >>> padding_cause([3, 4], Extent(3, 5), 8, "is left as it was")
    'the padding begins at the padded count, 5, not at the true one, 3'
    >>> padding_cause([3, 4], Extent(3, 5), 5, "is left as it was")
    'the padding, from 3 on, is left as it was'
    """
    num_live, num_padded = extent
    if list(wrong) == list(range(num_live, num_padded)) and num_padded < total:
        return f"the padding begins at the padded count, {num_padded}, not at the true one, {num_live}"
    if list(wrong) == list(range(num_live, total)):
        return f"the padding, from {num_live} on, {held}"
    return ""


def _wrapped(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31


_PROOFS: tuple[tuple[str, Callable[[int, int], bool]], ...] = (
    (
        "32-bit wrap-around: the value passes 2^31 and was computed or stored in 32 bits",
        lambda want, found: want >= 2**31 and found != want and found in (_wrapped(want), want % 2**32),
    ),
    ("-1 wrapped: none was read as unsigned", lambda want, found: want == -1 and found == 2**32 - 1),
)


def _fits(guess: Guess, expected: Sequence[Any], actual: Sequence[Any], wrong: Sequence[int]) -> bool:
    """Whether a guess gives every wrong value, and not many more wrong ones than were seen."""
    if any(guess.values[i] != actual[i] for i in wrong):
        return False
    few = _num_wrong(guess, expected) <= 2 * len(wrong)
    return few and len({actual[i] for i in wrong}) >= guess.distinct


def _num_wrong(guess: Guess, expected: Sequence[Any]) -> int:
    """Return how many elements would be wrong by a guess."""
    return sum(a != b for a, b in zip(guess.values, expected, strict=True))


def _arithmetic(pairs: Sequence[tuple[int, int]]) -> list[str]:
    """Return what the differences alone suggest."""
    steps = {found - want for want, found in pairs}
    causes = []
    if steps in ({1}, {-1}):
        causes.append(f"off by one: 1 too {'large' if steps == {1} else 'small'}")
    if all(want != 0 and found == 2 * want for want, found in pairs):
        causes.append("counts twice: each is double")
    return causes


def _shifted(
    expected: Sequence[Any], actual: Sequence[Any], wrong: Sequence[int], num_live: int
) -> list[str]:
    """Return the neighbouring element that all values belong to, where several values say so."""
    if len({actual[i] for i in wrong}) < 2:
        return []
    for step, side in ((-1, "before"), (1, "after")):
        if all(0 <= i + step < num_live and expected[i + step] == actual[i] for i in wrong):
            return [f"another row's: each holds what belongs to the row {side} it"]
    return []


def guesses_for(
    case: Case,
    expected: Sequence[Any],
    ask: Ask,
    inputs: Any,
    per_token: int,
    table: tuple[str, Sequence[int]],
) -> list[Guess]:
    """Return what kernels with known faults would answer: the oracle with one input replaced.

    ``per_token``: elements for each token, 0 where the output does not count tokens. ``table``: the input
    that says which row of the table each request has, and the rows.
    """
    if case.num_tokens_padded > MOST_TOKENS:
        return []
    changed = [(cause, ask(replaced)) for cause, replaced in _replacements(case, inputs, *table)]
    guesses = [Guess(cause, values) for cause, values in changed if values is not None]
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
    """Return faults as the inputs that would have caused them."""
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
    cause = f"the row of the batch instead of the request's table row ({row_name})"
    found.append((cause, {"row_index": by_index}))
    size, kernel_size = case.batch.block_size, case.kernel_block_size
    if size != kernel_size:
        cause = f"block size of the other role: {size} (manager) instead of {kernel_size} (kernel)"
        found.append((cause, {"kernel_block_size": size}))
    for other in _ASSUMED_SIZES:
        if other not in (size, kernel_size):
            cause = f"block size {other} is used instead of {kernel_size}"
            found.append((cause, {"kernel_block_size": other}))
    window = case.options.window
    if window > 0:
        found.append(("off by one: the window is one key too long", {"window": window + 1}))
    if window > 1:
        found.append(("off by one: the window is one key too short", {"window": window - 1}))
    return found


def _per_token(case: Case, expected: Sequence[Any], per_token: int) -> list[Guess]:
    """Return faults that stand in the values of one token: a term left out, rounding, a neighbour."""
    tokens = [
        (b, i, request.context_len, request.context_len + i)
        for b, request in enumerate(case.batch.requests)
        for i in range(request.query_len)
        for _ in range(per_token)
    ]
    rest = list(expected[len(tokens) :])
    size, ratio = case.kernel_block_size, case.options.compress_ratio
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
    """Return the output with each element's quotient rounded otherwise than down.

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

"""The work of cases, counted in seconds of a usual machine: a search does the same wherever it runs."""

from collections.abc import Collection

from cumae.oracle import Case
from cumae.properties.search.costs import size

PROGRAM, ACCESS = 1e-3, 1e-4
"""An interpreted program; it has ten accesses, or what more accesses are."""
CHECK = 2e-3
"""A check, without its programs."""
REQUEST, TOKEN, KEY = 2e-5, 2e-6, 2e-7
"""Each request, token and key of a case: oracle, copies and comparison."""
LOGIT, REPEATED = 8e-6, 2e-7
"""Each logit of a router, whose rows are judged one by one, and each of rows of which few differ."""
SELECTED, ENTRY = 2e-5, 1e-7
"""Each row of selected keys, and each entry of one, or of the keys of a window."""
LISTS_SELECTED = frozenset({"select_beyond", "num_spare_tokens"})
"""Features of the operations with `topk` that list each selected key."""
HEAD, QUANTISED = 1e-5, 5e-7
"""Each key and each value of a token that the oracle quantises, and each number of one."""
NUMBER = 4e-8
"""Each number of the keys and values of a token, in pages."""
BYTE, FP8_ROW = 4e-8, 2e-4
"""Each byte of the latent row of a token or a key, and each new row that the oracle quantises."""


def work_of(
    case: Case, features: Collection[str], num_checks: int, num_programs: int, num_accesses: int
) -> float:
    """Return the work of some checks on a case, which interpreted so many programs and accesses.

    ``features``: those of the operation.
    """
    requests, tokens, keys = size(case)
    of_token = of_key = 0.0
    if "router" in features:
        router = case.options.router
        of_token += router.num_experts * (REPEATED if router.logits_kind == "repeated" else LOGIT)
    if "topk" in features and not LISTS_SELECTED.isdisjoint(features):
        of_token += SELECTED + case.options.selection.topk * ENTRY
    if "min_window_columns" in features:
        of_token += case.options.keys.window * ENTRY
    heads = case.options.heads
    if "head_format" in features:
        numbers = heads.num_heads * (heads.head_dim + heads.value_dim)
        of_key += numbers * NUMBER
        of_token += 2 * heads.num_heads * HEAD + numbers * QUANTISED if heads.is_scaled else 0.0
    if "row_format" in features:
        of_row = case.options.rows.row_bytes * BYTE
        of_token, of_key = of_token + of_row, of_key + of_row
        of_token += FP8_ROW if case.options.rows.row_format == "fp8" else 0.0
    interpreted = max(num_programs * PROGRAM, num_accesses * ACCESS)
    return least_work(requests, tokens, keys, num_checks) + interpreted + tokens * of_token + keys * of_key


def least_work(requests: int, tokens: int, keys: int, num_checks: int) -> float:
    """Return the work of a case of this size, whatever its options and without what is interpreted."""
    return num_checks * CHECK + requests * REQUEST + tokens * TOKEN + keys * KEY

"""The work of cases, counted in seconds of a usual machine: a search does the same wherever it runs."""

from cumae.oracle import Case
from cumae.properties.search.costs import size

PROGRAM = 1e-3
"""An interpreted program."""
CHECK = 2e-3
"""A check, without its programs."""
REQUEST, TOKEN, KEY = 2e-5, 2e-6, 2e-7
"""Each request, token and key of a case: oracle, copies and comparison."""
LOGIT = 2e-5
"""Each logit of a router, whose rows are judged one by one."""


def work_of(case: Case, num_checks: int, num_programs: int, num_experts: int = 0) -> float:
    """Return the work of some checks on a case, which interpreted so many programs.

    ``num_experts``: of a router; 0 for other operations.
    """
    requests, tokens, keys = size(case)
    of_sizes = requests * REQUEST + tokens * (TOKEN + num_experts * LOGIT) + keys * KEY
    return num_checks * CHECK + num_programs * PROGRAM + of_sizes

"""Cases of an operation for tests of one's own, in no engine's words: a Hypothesis strategy, and seeds."""

from hypothesis import strategies as st

from cumae.oracle import Case, OperationName
from cumae.oracle.model.rules import require_int
from cumae.properties.cases import strategies
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.seeded import seeded_case
from cumae.properties.operations.operation import Operation
from cumae.properties.operations.table import operation_named


def cases(operation: OperationName | Operation, *, domain: Domain | None = None) -> st.SearchStrategy[Case]:
    """Return a Hypothesis strategy for cases of an operation; they shrink towards few, short requests.

    Every option of the operation varies, within ``domain`` if it is given. Raises ``ValueError`` for an
    unknown operation.

    >>> @given(case=cases("slot_mapping", domain=Domain(block_sizes=(16,))))  # doctest: +SKIP
    ... def test_my_planner(case): ...
    """
    return strategies.cases(domain=domain, features=operation_named(operation).features)


def seeded(operation: OperationName | Operation, seed: int = 0, *, domain: Domain | None = None) -> Case:
    """Return the case of an operation that a seed gives, by the strategy's rules, without Hypothesis.

    The same seed gives the same case. Raises ``ValueError`` for an unknown operation and a negative seed.

    >>> seeded("slot_mapping", 3) == seeded("slot_mapping", 3)
    True
    """
    require_int("seed", seed, 0)
    return seeded_case(seed, domain, operation_named(operation).features)

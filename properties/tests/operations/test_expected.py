"""Expected values as arrays: a mark is no number, wherever it stands."""

from typing import Any

import pytest

from cumae.oracle import ANY, UNTOUCHED
from cumae.properties.operations.expected import FREE, KEEP, MARKED, VALUE, _numbers

STATES = {UNTOUCHED: KEEP, ANY: FREE}


@pytest.mark.parametrize(
    "values",
    [
        [],
        [7],
        [ANY],
        [7, UNTOUCHED],
        [ANY, 7],
        [UNTOUCHED, ANY, ANY],
        [7, *[ANY] * (MARKED - 1)],
        [7, *[ANY] * MARKED],
        [*[ANY] * 3, 7, *[UNTOUCHED] * (2 * MARKED + 1)],
        [UNTOUCHED] * (MARKED + 1),
    ],
    ids=len,
)
def test_marks_have_states_and_numbers_their_values(values: list[Any]) -> None:
    told = _numbers(values, "int32")
    assert told.state.tolist() == [STATES.get(value, VALUE) for value in values]
    assert [w for w, s in zip(told.words.tolist(), told.state, strict=True) if s == VALUE] == [
        value for value in values if value not in STATES
    ]

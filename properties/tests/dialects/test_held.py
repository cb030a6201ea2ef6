"""Lists and rows with garbage become tensors, whichever entries are garbage."""

import pytest

from cumae.oracle import GARBAGE
from cumae.properties.dialects.held import ints, numbers

ROWS = {
    "none": [[1, 2, 3], [4, 5, 6]],
    "at the end": [[1, 2, GARBAGE], [4, GARBAGE, GARBAGE]],
    "between others": [[1, GARBAGE, 3], [GARBAGE, 5, GARBAGE]],
    "in whole rows": [[GARBAGE] * 3, [4, 5, 6]],
    "everywhere": [[GARBAGE] * 3, [GARBAGE] * 3],
}


@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
def test_garbage_stays_in_its_places(rows: list[list[object]]) -> None:
    held = ints(rows, "int32", "huge", width=3)
    assert held.values.tolist() == [[2**31 - 1 if e is GARBAGE else e for e in row] for row in rows]
    flat = [entry for row in rows for entry in row]
    assert ints(flat, "int32", "huge").values.tolist() == held.values.reshape(-1).tolist()


def test_numbers_without_garbage_have_no_places_of_it() -> None:
    assert numbers([[1, 2]], 2).garbage is None
    assert numbers([1, 2]).garbage is None
    assert numbers([], 2).known.shape == (0, 2)


@pytest.mark.parametrize("row", [[5], [1, 2, 3, 4], []])
def test_a_row_of_another_width_is_told(row: list[int]) -> None:
    with pytest.raises(ValueError, match=rf"entries of row 1 = {len(row)}, must be 3"):
        numbers([[1, 2, 3], row], 3)

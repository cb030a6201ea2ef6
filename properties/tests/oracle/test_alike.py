"""Cases that differ in strides, garbage and widths alone have the same inputs."""

from dataclasses import replace
from itertools import islice

import pytest

from cumae.oracle import DENSE, Case, Inputs
from cumae.oracle.model.inputs import INPUTS
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.seeded import seeded_cases

DOMAIN = Domain(max_query_len=40, missing_blocks=False)
CASES = [case for case in islice(seeded_cases(11, DOMAIN), 60) if case.num_tokens_padded < 99]


def others(case: Case) -> list[Case]:
    layout = case.layout
    wide = replace(layout, index_dtype="int64" if layout.index_dtype == "int32" else "int32")
    garbage = replace(layout, garbage="zero" if layout.garbage == "huge" else "huge")
    strided = replace(layout, table_row_gap=3, cache_block_gap=2, new_row_gap=5, storage_offset=1)
    return [replace(case, layout=one) for one in (wide, garbage, strided, replace(layout, **DENSE))]


@pytest.mark.parametrize("name", sorted(INPUTS))
def test_an_input_is_the_same(name: str) -> None:
    for case in CASES:
        given = Inputs(case)
        for other in others(case):
            assert Inputs(other)[name] == given[name] == given.alike(other)[name]

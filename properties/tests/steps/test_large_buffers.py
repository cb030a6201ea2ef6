"""Facts about steps in buffers that were made for more."""

import pytest

from cumae.oracle import Inputs
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.features import NAMES
from cumae.properties.steps.kinds import KINDS
from cumae.properties.steps.ladder import Ladder
from cumae.properties.steps.large_buffers import LARGE_BUFFERS
from cumae.properties.tests.given.kinds import LADDER, smallest


def test_each_stands_among_the_kinds() -> None:
    assert LARGE_BUFFERS.items() <= KINDS.items()


def test_buffers_have_room() -> None:
    wide = smallest("in a table of the longest context")
    assert wide.num_page_columns > 1_024
    assert wide.layout.num_spare_columns == 1_040
    workspace = smallest("in a large workspace")
    assert workspace.layout.key_slack == 2_100
    pool = smallest("in a large pool")
    assert pool.layout.num_spare_blocks == 4_100
    assert pool.options.rows.kv_lora_rank == 512
    assert len(Inputs(smallest("in a long table"))["block_table"]) > 1_024
    assert len(Inputs(smallest("in many slots"))["slot_mapping"]) > 2_048 + 37
    assert smallest("in buffers of many requests").num_requests_padded == 819


def test_free_slots_are_more_than_16_bits_count() -> None:
    plain = Ladder(Domain(), NAMES - {"row_format", "head_format"})
    case = smallest("in free slots", plain)
    assert case.batch.block_size == 1
    assert case.layout.num_spare_blocks > 2**16
    assert smallest("in free slots").layout.num_spare_blocks < 2**16


def test_a_promise_of_other_rooms_is_kept() -> None:
    build, (count, _) = LARGE_BUFFERS["in a large workspace"]
    assert build(Ladder(Domain(key_slack=(0,)), NAMES), count) is None


@pytest.mark.parametrize(
    ("name", "elements"), [("at the end of a pool", 576), ("at the end of pages", 8 * 128)]
)
def test_the_first_element_of_a_block_passes_24_bits(name: str, elements: int) -> None:
    build, sizes = LARGE_BUFFERS[name]
    case = build(LADDER, sizes[0])
    assert case is not None
    least = min(i for request in case.batch.requests for i in request.block_ids)
    assert least * case.batch.block_size * elements > 2**24

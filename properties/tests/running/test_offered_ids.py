"""The largest block id that a report offers: smaller than the promised one, and small enough."""

from cumae.fixtures.correct.page_rows import page_write
from cumae.oracle import Batch, Case, Options, Request
from cumae.properties.cases.domain import Domain
from cumae.properties.operations.binding import Binding, binding_of
from cumae.properties.running.variants import enlarged_cases, not_moved_by

HEADS = {"num_heads": 8, "head_dim": 128, "value_dim": 128}
CASE = Case(Batch((Request(1, 1, (3,), "decode"),), 256), options=Options.of(**HEADS))
"""A page of it has 256 × 8 × 128 elements: 8,192 pages have 2^31."""


def writing(domain: Domain) -> Binding:
    return binding_of(page_write, "page_write", domain=domain)


def told(domain: Domain) -> str:
    binding = writing(domain)
    return " ".join(not_moved_by(binding, CASE, large) for large in enlarged_cases(binding, CASE))


def test_pages_of_an_offered_id_end_before_2_31_elements() -> None:
    assert "Domain(max_block_id=8191)" in told(Domain())
    assert "Domain(max_block_id=8191)" in told(Domain(max_block_id=65535))


def test_a_promised_id_is_not_offered() -> None:
    assert "max_block_id" not in told(Domain(max_block_id=8191))
    assert "max_block_id" not in told(Domain(max_block_id=4000))


def test_under_the_offered_id_no_case_is_as_far() -> None:
    domain = Domain(max_block_id=8191)
    moved = [large for large in enlarged_cases(writing(domain), CASE) if large.batch != CASE.batch]
    assert moved and all(domain.why_not(large) is not None for large in moved)

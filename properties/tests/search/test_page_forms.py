"""A search of pages says which orders and formats no case had."""

from cumae import Domain
from cumae.fixtures.correct.page_rows import page_write
from cumae.oracle import HEAD_FORMATS, PAGE_ORDERS
from cumae.properties.cases.page_formats import forms_of
from cumae.properties.operations.binding import Binding, binding_of
from cumae.properties.running.device import prepare
from cumae.properties.search.budget import Budget
from cumae.properties.search.first_cases import fixture_cases
from cumae.properties.search.loop import search

DEVICE = prepare("auto")
FEW = Domain(page_order=("NHD", "joined"), head_format=("bf16",))


def notes_of(binding: Binding, number: int) -> tuple[str, ...]:
    first = fixture_cases(binding)[:number]
    verdict = search(binding, DEVICE, Budget(examples=0), checks=["agrees"], first=first)
    assert verdict.ok
    return verdict.notes


def test_what_no_case_had_is_named() -> None:
    binding = binding_of(page_write, "page_write", domain=FEW)
    order = fixture_cases(binding)[0].options.heads.page_order
    (left,) = {"NHD", "joined"} - {order}
    assert notes_of(binding, 1) == (f"no case had pages in these orders and formats: {left} bf16",)
    assert notes_of(binding_of(page_write, "page_write", domain=FEW.having(page_order=(order,))), 1) == ()


def test_forms_are_those_that_pages_can_have() -> None:
    assert forms_of(FEW, {"page_order", "head_format"}) == [("NHD", "bf16"), ("joined", "bf16")]
    assert forms_of(FEW, {"window"}) == []
    every = forms_of(Domain(), {"page_order", "head_format", "head_dims"})
    assert set(every) <= {(order, one) for order in PAGE_ORDERS for one in HEAD_FORMATS}
    assert {order for order, _ in every} == {*PAGE_ORDERS}

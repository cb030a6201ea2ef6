"""Facts about the pages of drawn cases: formats, orders and block sizes that fit each other."""

import pytest

from cumae.oracle import HEAD_FORMATS, PAGE_ORDERS, Case
from cumae.properties.cases.choices import SeededChoices
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.draws import draw_case
from cumae.properties.cases.features import NAMES
from cumae.properties.cases.page_formats import block_sizes, fits
from cumae.properties.steps.ladder import Ladder

SHUFFLED = Domain(page_order=("shuffled",), head_format=("bf16", "fp32", "bytes"), block_sizes=(4, 8, 16))
HIDDEN = NAMES - {"page_order"}


def _cases(domain: Domain, features: frozenset[str], count: int = 300) -> list[Case]:
    return [draw_case(SeededChoices(seed), domain, features) for seed in range(count)]


@pytest.mark.parametrize("features", [NAMES, HIDDEN, NAMES - {"head_format"}, NAMES - {"head_dims"}])
def test_drawn_pages_of_a_promised_order_lie_in_the_domain(features: frozenset[str]) -> None:
    for case in _cases(SHUFFLED, features):
        assert SHUFFLED.why_not(case) is None


def test_every_block_size_is_drawn_with_the_formats_that_fit_it() -> None:
    found = {(case.batch.block_size, case.options.heads.head_format) for case in _cases(SHUFFLED, HIDDEN)}
    assert found == {(4, "fp32"), (8, "bf16"), (8, "fp32"), (16, "bf16"), (16, "fp32"), (16, "bytes")}


def test_a_size_that_no_settled_format_fits_is_left_out() -> None:
    assert block_sizes(SHUFFLED, NAMES) == (4, 8, 16)
    assert block_sizes(SHUFFLED, HIDDEN - {"head_format"}) == (8, 16)


def test_promises_that_no_page_fits_are_refused() -> None:
    says = r"block_sizes = \(8,\), must hold one that pages of a promised order and format can have"
    with pytest.raises(ValueError, match=says):
        Domain(page_order=("shuffled",), head_format=("bytes",), block_sizes=(8,))
    with pytest.raises(ValueError, match="block_sizes"):
        Domain(page_order=("packed",), head_dims=((3, 3),))


def test_every_format_and_order_fits_some_page() -> None:
    usual = [(kind, order) for kind in HEAD_FORMATS for order in PAGE_ORDERS]
    assert sum(fits(kind, order, (16, 16), 16) for kind, order in usual) == len(usual) - 4


def test_many_rows_have_few_heads_and_the_most_are_copied() -> None:
    for size, formats in ((2_000, set(HEAD_FORMATS)), (20_000, {"bf16", "fp16", "fp32", "bytes"})):
        for more in range(20):
            case = Ladder(Domain(), NAMES).tokens(size + more, 0)
            assert case is not None
            heads = case.options.heads
            assert (heads.num_heads, heads.head_dim, heads.value_dim) == (1, 16, 16)
            assert heads.head_format in formats


def test_large_ids_lie_in_a_domain_of_few_dims() -> None:
    domain = Domain(head_dims=((128, 4),), num_heads=(2,))
    case = Ladder(domain, NAMES).ids(65_600)
    assert case is not None and domain.why_not(case) is None

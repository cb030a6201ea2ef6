"""Facts about steps in heads of 128 numbers with own scales, in large packed pages, and in wide keys."""

import pytest

from cumae.properties.cases.domain import Domain
from cumae.properties.cases.features import NAMES
from cumae.properties.steps.kinds import KINDS
from cumae.properties.steps.ladder import Ladder
from cumae.properties.steps.own_heads import OWN_HEADS
from cumae.properties.tests.given.kinds import smallest


def test_each_stands_among_the_kinds() -> None:
    assert OWN_HEADS.items() <= KINDS.items()


@pytest.mark.parametrize("name", OWN_HEADS)
def test_each_has_the_heads_that_its_name_tells(name: str) -> None:
    case = smallest(name)
    assert case.batch.num_tokens == OWN_HEADS[name][1][0] + 6
    heads = case.options.heads
    wide = heads.head_dim if heads.head_dim == heads.value_dim else f"{heads.head_dim} and {heads.value_dim}"
    assert f"{heads.num_heads} heads of {wide} in {heads.head_format}, {heads.page_order}" in name
    assert ("pages of 128" in name) == (case.batch.block_size == 128)


def test_a_domain_without_the_format_or_the_pages_has_none_of_them() -> None:
    build, sizes = OWN_HEADS["few tokens in 8 heads of 128 in fp8, packed, pages of 128"]
    assert build(Ladder(Domain(head_format=("bf16",)), NAMES), sizes[0]) is None
    assert build(Ladder(Domain(block_sizes=(16,)), NAMES), sizes[0]) is None

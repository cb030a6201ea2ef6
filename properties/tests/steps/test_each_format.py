"""Each order and format of pages, each format of rows and each hard input of a router has steps."""

from itertools import product

from cumae.oracle import BIAS_KINDS, HEAD_FORMATS, LOGITS_KINDS, PAGE_ORDERS, ROW_FORMATS, Case
from cumae.properties.cases.domain import Domain
from cumae.properties.operations.table import OPERATIONS
from cumae.properties.steps.each_format import EACH_PAGE, EACH_ROUTER, EACH_ROW, GROUPED, ROUTERS, Steps
from cumae.properties.steps.kinds import KINDS, OF_TOKENS
from cumae.properties.steps.ladder import Ladder

ALL = {**EACH_PAGE, **EACH_ROUTER, **EACH_ROW}


def _made(kinds: Steps, operation: str) -> list[Case]:
    ladder = Ladder(Domain(), OPERATIONS[operation].features)
    built = [build(ladder, sizes[-1]) for build, sizes in kinds.values()]
    return [case for case in built if case is not None]


def test_each_stands_among_the_kinds() -> None:
    assert ALL.items() <= KINDS.items() and {*EACH_ROUTER} <= {*OF_TOKENS}


def test_each_order_has_each_format_and_many_keys_of_wide_heads() -> None:
    heads = [case.options.heads for case in _made(EACH_PAGE, "page_read")]
    pairs = {(one.page_order, one.head_format) for one in heads}
    assert pairs == {
        (order, kind)
        for order, kind in product(PAGE_ORDERS, HEAD_FORMATS)
        if not (order in GROUPED and "own" in kind)
    }
    assert {one.head_dim for one in heads} == {64} and {one.num_heads for one in heads} == {8}


def test_each_format_of_rows_has_ranks_padded_slots_and_long_prefixes() -> None:
    cases = _made(EACH_ROW, "cache_write")
    for kind in ROW_FORMATS:
        of_kind = [case for case in cases if case.options.rows.row_format == kind]
        assert {case.batch.world for case in of_kind} == {1, 2}
        assert max(case.layout.num_padding_slots for case in of_kind) > 64
        assert max(case.batch.num_tokens for case in of_kind) > 1_024
        assert max(one.context_len for case in of_kind for one in case.batch.requests) > 4_096


def test_each_router_has_each_kind_of_logits_and_biases() -> None:
    routers = [case.options.router for case in _made(EACH_ROUTER, "grouped_topk")]
    shapes = [(one.num_experts, one.num_groups, one.topk_group, one.top_k) for one in routers]
    logits = {*zip(shapes, (one.logits_kind for one in routers), strict=True)}
    biases = {*zip(shapes, (one.bias_kind for one in routers), strict=True)}
    assert logits >= {*product(ROUTERS, LOGITS_KINDS)} and biases >= {*product(ROUTERS, BIAS_KINDS)}
    assert {(one.logits_dtype, one.bias_dtype) for one in routers} >= {("bf16", "fp32"), ("bf16", "bf16")}

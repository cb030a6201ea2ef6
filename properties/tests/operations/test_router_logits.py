"""Logits and biases of a router, and the numbers that make one."""

import math
import struct
from itertools import islice
from typing import Any

import pytest

from cumae.oracle import (
    BIAS_KINDS,
    GARBAGE,
    LOGITS_KINDS,
    Batch,
    Case,
    Inputs,
    Layout,
    Options,
    Request,
    from_json,
    rights_of_rows,
    to_json,
)
from cumae.oracle.grouped_topk import LARGEST_BIAS
from cumae.oracle.router_logits import router_bias, router_logits
from cumae.properties.cases.choices import SeededChoices
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.draws import draw_case
from cumae.properties.cases.router_values import ROUTER_SHAPES
from cumae.properties.cases.seeded import seeded_cases
from cumae.properties.tests.given.routed_steps import ROUTED

STEP = Batch((Request(0, 3, (4,)), Request(0, 0), Request(5, 2, (7, 2), "decode")), 4)


class TestLogits:
    @pytest.mark.parametrize("kind", LOGITS_KINDS)
    @pytest.mark.parametrize("dtype", ["fp32", "bf16"])
    def test_numbers_are_those_of_their_dtype(self, kind: Any, dtype: Any) -> None:
        for seed in range(5):
            values = [*router_bias(kind, seed, 16, dtype), *router_logits(kind, seed, 3, 16, dtype)]
            for value in values:
                bits = struct.unpack("<I", struct.pack("<f", value))[0]
                assert math.isnan(value) or struct.unpack("<f", struct.pack("<I", bits))[0] == value
                assert dtype == "fp32" or bits & 0xFFFF == 0 or math.isnan(value)

    def test_a_token_keeps_its_logits_when_others_go(self) -> None:
        options = Options.of(logits_kind="near_ties", logits_seed=4)
        whole, part = Case(STEP, options=options), Case(Batch(STEP.requests[2:], 4), options=options)
        assert Inputs(whole)["logits"][3:] == Inputs(part)["logits"]
        rows = Inputs(whole)["logits"]
        assert len({tuple(row) for row in rows}) == len(rows)

    def test_repeated_rows_are_few_and_equal_ones_lie_in_other_places(self) -> None:
        rows = [tuple(router_logits("repeated", 4, place, 16, "fp32")) for place in range(200)]
        assert len({*rows}) == 61
        assert all(rows[place] == rows[place + 61] for place in range(139))

    def test_padding_rows_are_garbage(self) -> None:
        case = Case(STEP, Layout(num_padding_tokens=2))
        assert Inputs(case)["logits"][5:] == [[GARBAGE] * 8] * 2

    def test_every_kind_dtype_and_shape_is_drawn(self) -> None:
        options = [draw_case(SeededChoices(i), Domain(), ROUTED).options.router for i in range(600)]
        assert {o.logits_kind for o in options} == set(LOGITS_KINDS)
        assert {(o.logits_dtype, o.bias_dtype) for o in options} == {(a, b) for a in D for b in D}
        shapes = {(o.num_experts, o.num_groups, o.topk_group, o.top_k) for o in options}
        assert shapes > set(ROUTER_SHAPES) and len(shapes) > 2 * len(ROUTER_SHAPES)

    def test_near_ties_are_decided_by_rounding(self) -> None:
        rows = [router_logits("near_ties", 0, place, 8, "fp32") for place in range(40)]
        rights = rights_of_rows(rows, router_bias("near_ties", 0, 8, "fp32"), 2, 1, 2)
        assert 1 in rights and rights.count(2) > 10

    def test_each_kind_of_bias_meets_each_kind_of_logits(self) -> None:
        options = [draw_case(SeededChoices(i), Domain(), ROUTED).options.router for i in range(1_500)]
        found = {(o.logits_kind, o.bias_kind) for o in options}
        assert len(found) == len(LOGITS_KINDS) * len(BIAS_KINDS)

    def test_biases_of_their_own_are_0_equal_below_0_or_far_from_the_others(self) -> None:
        for seed in range(20):
            of = {kind: router_bias("wide", seed, 64, "bf16", kind) for kind in BIAS_KINDS}
            assert {*of["zero"]} == {0.0} and len({*of["equal"]}) == 1
            assert max(of["negative"]) < -1 and max(of["low"]) < -9 and max(of["very_low"]) < -1e4
            far = [abs(bias) for bias in of["few_far"] if abs(bias) > 1]
            assert 0 < len(far) < 32 and min(far) >= 9_984 and max(far) <= LARGEST_BIAS
        assert max(max(map(abs, router_bias("wide", s, 64, "bf16", "few_far"))) for s in range(20)) > 1e37

    def test_biases_near_7_are_one_number_in_bf16(self) -> None:
        assert set(router_bias("close_biases", 0, 16, "bf16")) == {7.0}
        assert len(set(router_bias("close_biases", 0, 16, "fp32"))) == 2


D = ("fp32", "bf16")


class TestOptions:
    @pytest.mark.parametrize(
        ("fields", "said"),
        [
            ({"num_groups": 3}, "num_experts = 8, must divide evenly into groups of at least 2"),
            ({"num_groups": 8}, "num_experts = 8, must divide evenly into groups of at least 2"),
            ({"topk_group": 3}, "topk_group = 3, must be <= 2"),
            ({"top_k": 5}, "top_k = 5, must be <= 4"),
            ({"scaling_thousandths": 0}, "scaling_thousandths = 0, must be >= 1"),
            ({"logits_kind": "odd"}, "logits_kind = 'odd', must be one of 'random', "),
            ({"bias_kind": "odd"}, "bias_kind = 'odd', must be one of 'as_logits', "),
            ({"bias_dtype": "fp16"}, "bias_dtype = 'fp16', must be one of 'fp32', 'bf16'"),
        ],
    )
    def test_numbers_that_are_no_router_are_refused(self, fields: dict[str, Any], said: str) -> None:
        with pytest.raises(ValueError, match=f"^{said}"):
            Options.of(**fields)

    def test_a_case_is_written_and_read(self) -> None:
        for case in islice(seeded_cases(9, None, ROUTED), 50):
            assert from_json(to_json(case)) == case

    def test_a_domain_promises_shapes_dtypes_and_kinds(self) -> None:
        domain = Domain(router_shapes=((256, 8, 4, 8),), logits_dtype=("bf16",), logits_kind=("random",))
        for case in islice(seeded_cases(1, domain, ROUTED), 20):
            assert domain.why_not(case) is None
            assert (case.options.router.num_experts, case.options.router.logits_dtype) == (256, "bf16")
        other = Case(STEP, options=Options.of(logits_dtype="bf16"))
        assert domain.why_not(other) == "8 experts in 2 groups, 1 kept, top 2"
        with pytest.raises(ValueError, match=r"num_experts = 8, must divide evenly"):
            Domain(router_shapes=((8, 3, 1, 1),))

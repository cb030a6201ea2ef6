"""The router: what the judge accepts is what rounding can lead to, and the suite catches what is wrong."""

import math
import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations, islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import cumae
from cumae.fixtures.correct import router as correct
from cumae.oracle import (
    GARBAGE,
    LOGITS_KINDS,
    Batch,
    Case,
    Inputs,
    Layout,
    Options,
    Request,
    from_json,
    grouped_topk,
    grouped_topk_faults,
    margins_of,
    rights_of_rows,
    to_json,
)
from cumae.oracle.grouped_topk import Routed, routed, weights_of
from cumae.oracle.grouped_topk_judge import _wrong_selection
from cumae.oracle.router_logits import as_stored, router_bias, router_logits
from cumae.oracle.router_margins import group_key, is_undefined
from cumae.properties.cases.choices import SeededChoices
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.draws import draw_case
from cumae.properties.cases.seeded import seeded_cases
from cumae.properties.cases.values import ROUTER_SHAPES
from cumae.properties.commands.fuzz import fuzz
from cumae.properties.operations.router import router
from cumae.properties.results.explain import explain
from cumae.properties.running.device import prepare
from cumae.properties.tests import wrong_routers as wrong

DEVICE = prepare("auto")
PAGE = Path(__file__).parents[2] / "operations/grouped_topk.md"
ROUTED = frozenset({"router", "scaling_factor", "renormalize"})
SMALL = Domain(router_shapes=tuple(shape for shape in ROUTER_SHAPES if shape[0] <= 16))
U = 2.0**-24
STEP = Batch((Request(0, 3, (4,)), Request(0, 0), Request(5, 2, (7, 2), "decode")), 4)


def shape_of(options: Options) -> Any:
    return {name: options.value(name) for name in ("num_groups", "topk_group", "top_k")}


def drawn(seed: int, count: int) -> list[tuple[Options, list[list[float]], list[float]]]:
    """Return options, logits and bias of small routers of every kind."""
    found = []
    for case in islice(seeded_cases(seed, SMALL, ROUTED), count):
        rows = [row for row in Inputs(case)["logits"] if GARBAGE not in row]
        found.append((case.options, rows[:6], Inputs(case)["bias"]))
    return found


def computed(
    options: Options, row: Sequence[float], bias: Sequence[float], seed: int, in_bf16: bool
) -> tuple[list[int], list[float]]:
    """Return what a router answers that computes in fp32 (or bf16), its sigmoid off by up to 8 units."""

    def rounded(values: Any) -> Any:
        narrow = np.asarray(values, dtype=np.float32)
        return (
            np.array([as_stored(float(v), "bf16") for v in narrow.flat], dtype=np.float32)
            if in_bf16
            else narrow
        )

    off = {
        x: np.random.default_rng([seed, i]).choice([-8, 8, 0, 5]) for i, x in enumerate(dict.fromkeys(row))
    }
    scores = np.array([0.0 if math.isnan(x) else sigmoid(x) + off[x] * U for x in row])
    scores = rounded(np.clip(scores, 0, 1))
    choices = rounded(scores + rounded(bias))
    choices[np.isnan(row)] = -np.inf
    grouped = np.sort(choices.reshape(options.router.num_groups, -1), axis=1)
    totals = rounded(grouped[:, -1] + grouped[:, -2])
    kept = np.argsort(-totals, kind="stable")[: options.router.topk_group]
    masked = np.full_like(choices, -np.inf).reshape(options.router.num_groups, -1)
    masked[kept] = choices.reshape(options.router.num_groups, -1)[kept]
    ids = np.argsort(-masked.ravel(), kind="stable")[: options.router.top_k]
    weights = scores[ids]
    if options.router.renormalize:
        weights = weights / (weights.sum(dtype=np.float32) + np.float32(1e-20))
    return ids.tolist(), (weights * np.float32(options.router.scaling_thousandths / 1000)).tolist()


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


def judged(options: Options, rows: Any, bias: Any, ids: Any, weights: Any, **how: Any) -> list[str]:
    scale, renormalize = options.router.scaling_thousandths / 1000, options.router.renormalize
    return grouped_topk_faults(rows, bias, **shape_of(options), scaling_factor=scale, renormalize=renormalize,
                               expert_ids=ids, expert_weights=weights, **how)  # fmt: skip


class TestTheJudge:
    @pytest.mark.parametrize("rounding", ["fp32", "bf16"])
    def test_whatever_rounding_leads_to_is_right(self, rounding: Any) -> None:
        several = 0
        for seed, (options, rows, bias) in enumerate(drawn(5, 400)):
            for t, row in enumerate(rows):
                ids, weights = computed(options, row, bias, 100 * seed + t, rounding == "bf16")
                assert judged(options, [row], bias, ids, weights, rounding=rounding) == [], (options, row)
                several += ids != grouped_topk([row], bias, **shape_of(options)).expert_ids
        assert several > 20

    def test_a_selection_is_right_where_some_set_of_groups_says_so(self) -> None:
        """The rule as it is written: every set of groups, and every selection of few experts, is tried."""
        accepted = refused = 0
        for options, rows, bias in drawn(11, 400):
            if (
                options.router.num_experts > 12
                or math.comb(options.router.num_experts, options.router.top_k) > 300
            ):
                continue
            for row in rows[:2]:
                token, margins = routed(row, bias, options.router.num_groups), margins_of(bias)
                if is_undefined(token, options.router.topk_group, options.router.top_k, margins):
                    continue
                for ids in combinations(range(options.router.num_experts), options.router.top_k):
                    for ties in ("lower", "any"):
                        found = _wrong_selection(token, ids, options.router.topk_group, margins, ties)
                        right = right_by_trying_all(token, ids, options.router.topk_group, bias, ties)
                        assert (not found) == right, (options, row, ids, found)
                        accepted, refused = accepted + right, refused + (not right)
        assert accepted > 1000 and refused > 5000

    def test_the_ideal_answer_is_right(self) -> None:
        for options, rows, bias in drawn(3, 300):
            scale, renormalize = options.router.scaling_thousandths / 1000, options.router.renormalize
            ideal = grouped_topk(
                rows, bias, **shape_of(options), scaling_factor=scale, renormalize=renormalize
            )
            known = [
                t for t in range(len(rows)) if isinstance(ideal.expert_ids[t * options.router.top_k], int)
            ]
            for t in known:
                part = slice(t * options.router.top_k, (t + 1) * options.router.top_k)
                ids, weights = ideal.expert_ids[part], ideal.expert_weights[part]
                assert judged(options, [rows[t]], bias, ids, weights) == []

    def test_one_right_answer_leaves_no_other(self) -> None:
        ones = 0
        for options, rows, bias in drawn(17, 200):
            if (
                options.router.num_experts > 12
                or math.comb(options.router.num_experts, options.router.top_k) > 300
            ):
                continue
            for row, rights in zip(rows, rights_of_rows(rows, bias, **shape_of(options)), strict=True):
                token, margins = routed(row, bias, options.router.num_groups), margins_of(bias)
                every = combinations(range(options.router.num_experts), options.router.top_k)
                right = [
                    not _wrong_selection(token, ids, options.router.topk_group, margins, "lower")
                    for ids in every
                ]
                if rights == 1:
                    assert sum(right) == 1
                    ones += 1
        assert ones > 100

    def test_a_group_is_not_exactly_equal_where_another_expert_may_be_its_second(self) -> None:
        close = as_stored(0.3, "fp32")
        rival = as_stored(close * (1 - 2e-7), "fp32")
        row = [1.0, close, -3.0, 1.0, close, rival]  # the higher group may compute a larger second best
        token = routed(row, [0.0] * 6, 2)
        margins = margins_of([0.0])
        assert group_key(token, 0, margins) != group_key(token, 1, margins)
        assert _wrong_selection(token, [3, 4], 1, margins, "lower") == ""
        far = routed([1.0, close, -3.0, 1.0, close, -2.0], [0.0] * 6, 2)
        assert "with the same best two" in _wrong_selection(far, [3, 4], 1, margins, "lower")
        assert _wrong_selection(far, [3, 4], 1, margins, "any") == ""

    @pytest.mark.parametrize(
        ("ids", "weights", "said"),
        [
            ([0, 8], [0.5, 0.5], "row 0: expert 8 does not exist: there are 8"),
            ([0, -1], [0.5, 0.5], "row 0: expert -1 does not exist: there are 8"),
            ([1, 1], [0.5, 0.5], "row 0: expert 1 is selected twice"),
            ([0, 1], [0.5, math.nan], "row 0: the weight of expert 1 is nan, must be finite"),
            ([0, 4], [0.5, 0.5], "row 0: experts of 2 groups are selected, must be of at most 1"),
            ([0, 2], [0.5, 0.5], "row 0: expert 2 is selected, expert 1 with the same logit and bias is not: "
             'the lower index goes first, unless the operation is router(ties="any")'),
            ([4, 5], [0.5, 0.5], "row 0: experts of group 1 are selected, those of group 0, with the same "
             'best two, are not: the lower index goes first, unless the operation is router(ties="any")'),
            ([0, 1], [0.5, 0.6], "row 0: the weight of expert 1 is 0.6, must be 0.5 within 1e-06"),
        ],
    )  # fmt: skip
    def test_a_fault_is_told_in_a_sentence(self, ids: list[int], weights: list[float], said: str) -> None:
        assert judged(Options(), [[0.25] * 8], [0.0] * 8, ids, weights) == [said]

    def test_garbage_and_undefined_rows_are_held_to_the_range_only(self) -> None:
        rows = [[GARBAGE] * 8, [math.nan] * 7 + [0.0]]
        assert judged(Options(), rows, [0.0] * 8, [7, 2, 3, 5], [0.0, -3.0, 9.0, 0.0]) == []
        assert len(judged(Options(), rows, [0.0] * 8, [7, 7, 3, 9], [0.0] * 4)) == 2

    def test_weights_are_bounded_as_written(self) -> None:
        bias, row = [0.0] * 4, [3.0, -1.0, 0.5, -8.0]
        token = routed(row, bias, 1)
        for renormalize, scale in ((True, 2.5), (False, 2.5), (True, 1.0)):
            options = Options.of(num_experts=4, num_groups=1, topk_group=1, top_k=3, renormalize=renormalize,
                              scaling_thousandths=int(1000 * scale))  # fmt: skip
            ids = [0, 2, 1]
            exact = weights_of(token, ids, scale, renormalize)
            total = sum(token.scores[i] for i in ids)
            for j, i in enumerate(ids):
                p = token.scores[i] / total
                bound = (
                    scale * U * ((8 + 24 * p) / (total - 24 * U) + 6 * p) if renormalize else 10 * U * scale
                )
                for beyond, count in ((0.99, 0), (1.01, 1)):
                    weights = [w + bound * beyond * (k == j) for k, w in enumerate(exact)]
                    assert len(judged(options, [row], bias, ids, weights)) == count

    def test_a_sum_of_nothing_leaves_weights_open(self) -> None:
        options = Options.of(num_experts=4, num_groups=1, topk_group=1, top_k=2)
        assert judged(options, [[-20.0] * 4], [0.0] * 4, [0, 1], [0.9, 0.0]) == []
        assert judged(options, [[-20.0] * 4], [0.0] * 4, [0, 1], [0.9, -0.1]) != []

    def test_groups_with_the_same_sum_are_a_tie_in_whatever_order_it_is_added(self) -> None:
        """In float64 (s + 1/4) + t is one unit less than s + (t + 1/4) here."""
        logits, bias = [[1.0, -2.0, 1.0, -2.0]], [0.25, 0.0, 0.0, 0.25]
        assert grouped_topk(logits, bias, num_groups=2, topk_group=1, top_k=2).expert_ids == [0, 1]

    def test_a_bias_that_overflows_is_refused(self) -> None:
        for value in (math.inf, math.nan, 3e38):
            with pytest.raises(ValueError, match=r"bias\[1\] = .*, must be finite, and at most 2\^126"):
                grouped_topk([[0.0] * 2], [0.0, value], 1, 1, 1)


def right_by_trying_all(
    token: Routed, ids: Sequence[int], topk_group: int, bias: Sequence[float], ties: str
) -> bool:
    """Whether a selection is right, by its definition: some admissible set of groups contains it."""
    largest = max(map(abs, bias))
    eps_e, eps_g = (10 + largest) * U, (23 + 5 * largest) * U
    usable = [g for g, score in enumerate(token.group_scores) if score > -math.inf]
    keys = {g: group_key(token, g, margins_of(bias)) for g in usable}
    for groups in combinations(usable, topk_group):
        out = [g for g in usable if g not in groups]
        least = min(token.group_scores[g] for g in groups)
        if any(token.group_scores[g] > least + 2 * eps_g for g in out):
            continue
        if ties == "lower" and any(keys[g] == keys[h] and h < g for g in groups for h in out):
            continue
        members = [i for g in groups for i in token.members(g)]
        if not set(ids) <= set(members):
            continue
        left = [i for i in members if i not in ids]
        lowest = min(token.choices[i] for i in ids)
        if lowest == -math.inf or any(token.choices[i] > lowest + 2 * eps_e for i in left):
            continue
        if ties == "lower" and any(token.bits[i] == token.bits[j] and i < j for i in left for j in ids):
            continue
        return True
    return False


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

    def test_padding_rows_are_garbage(self) -> None:
        case = Case(STEP, Layout(num_padding_tokens=2))
        assert Inputs(case)["logits"][5:] == [[GARBAGE] * 8] * 2

    def test_every_kind_dtype_and_shape_is_drawn(self) -> None:
        options = [draw_case(SeededChoices(i), Domain(), ROUTED).options.router for i in range(600)]
        assert {o.logits_kind for o in options} == set(LOGITS_KINDS)
        assert {(o.logits_dtype, o.bias_dtype) for o in options} == {(a, b) for a in D for b in D}
        assert {(o.num_experts, o.num_groups, o.topk_group, o.top_k) for o in options} == set(ROUTER_SHAPES)

    def test_near_ties_are_decided_by_rounding(self) -> None:
        rows = [router_logits("near_ties", 0, place, 8, "fp32") for place in range(40)]
        rights = rights_of_rows(rows, router_bias("near_ties", 0, 8, "fp32"), 2, 1, 2)
        assert 1 in rights and rights.count(2) > 10

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


def check(function: Callable[..., Any], operation: Any = "grouped_topk", **more: Any) -> cumae.Verdict:
    return cumae.check(function, operation, **{"examples": 300, "save_to": None, "seed": 1, **more})


UNCAPTURED = Domain(captured=False)
NO_NAN = Domain(captured=False, logits_kind=tuple(k for k in LOGITS_KINDS if k != "nan_and_inf"))


class TestChecks:
    @pytest.mark.parametrize(
        ("function", "check_name", "said"),
        [
            (wrong.never_renormalized, "agrees", "the weight of expert"),
            (wrong.scaled_before_the_sum, "agrees", "the weight of expert"),
            (wrong.groups_ignored, "agrees", "experts of 2 groups are selected|must be kept before"),
            (wrong.second_distinct_value, "agrees", "group|expert"),
            (wrong.higher_index_first, "agrees", "the lower index goes first|the same best two"),
            (wrong.higher_group_first, "agrees", "with the same best two"),
            (wrong.not_a_number_first, "agrees", "is not a number|nan"),
            (wrong.sigmoid_in_bf16, "agrees", "expert|group"),
            (wrong.padding_beyond_the_experts, "agrees", "does not exist"),
            (wrong.last_row_left_alone, "writes_everything", "was never written"),
            (wrong.mean_over_the_step, "ignores_garbage", r"`expert_weights\[\d+\]` changed when unused"),
        ],
    )
    def test_a_wrong_router_fails_the_check_that_is_there_for_it(
        self, function: Callable[..., Any], check_name: str, said: str
    ) -> None:
        failure = check(function, checks=[check_name], domain=UNCAPTURED).failure
        assert failure is not None
        message = failure.finding.message
        assert re.search(said, message), message
        assert len(failure.case.batch.requests) <= 2

    @pytest.mark.parametrize(
        ("function", "dialect"), [(correct.grouped_topk, "cumae"), (correct.vllm_grouped_topk, "vllm")]
    )
    def test_a_right_router_passes_every_check(self, function: Callable[..., Any], dialect: str) -> None:
        verdict = check(function, dialect=dialect, domain=UNCAPTURED, examples=60)
        assert verdict.ok, verdict.failure
        assert verdict.several_right > 0

    def test_torch_topk_is_right_where_ties_go_to_any(self) -> None:
        assert check(correct.grouped_topk_by_topk, router(ties="any"), domain=UNCAPTURED, examples=60)

    def test_the_example_of_the_page_runs(self) -> None:
        (code,) = re.findall(r"(?s)```python\n(.*?)```", PAGE.read_text())
        found: dict[str, Any] = {}
        exec(code, found)
        assert found["verdict"].ok

    def test_rounding_to_bf16_is_right_where_that_is_the_rule(self) -> None:
        verdict = check(wrong.sigmoid_in_bf16, router(rounding="bf16"), domain=UNCAPTURED, examples=150)
        assert verdict.ok, verdict.failure

    def test_weights_made_in_bf16_are_right_where_that_is_the_rule(self) -> None:
        """As torch makes them: scores in the dtype of the logits, and weights in that of the scores."""
        in_bf16 = router(ties="any", rounding="bf16")
        verdict = check(wrong.all_in_bf16, in_bf16, domain=NO_NAN, examples=200)
        assert verdict.ok, verdict.failure
        failure = check(wrong.all_in_bf16, router(ties="any"), domain=NO_NAN).failure
        assert failure is not None

    @pytest.mark.parametrize("function", [wrong.all_in_fp8, wrong.one_weight_forgotten])
    def test_what_bf16_does_not_explain_is_told(self, function: Callable[..., Any]) -> None:
        failure = check(function, router(ties="any", rounding="bf16"), domain=NO_NAN).failure
        assert failure is not None
        assert "the weight of expert" in failure.finding.message

    @pytest.mark.parametrize("renormalize", [True, False])
    def test_weights_in_bf16_are_bounded_as_written(self, renormalize: bool) -> None:
        bias, row, ids, scale, v = [0.0] * 4, [3.0, -1.0, 0.5, -8.0], [0, 2, 1], 2.5, 2.0**-8
        options = Options.of(num_experts=4, num_groups=1, topk_group=1, top_k=3, renormalize=renormalize,
                          scaling_thousandths=2500)  # fmt: skip
        token = routed(row, bias, 1)
        exact, total = weights_of(token, ids, scale, renormalize), sum(token.scores[i] for i in ids)
        for j, i in enumerate(ids):
            s, d = token.scores[i], 8 * U + v
            e, p = d * (1 + 3 * s / total) / (total - 3 * d), s / total
            bound = e + 6 * U * p + 4.1 * v * (p + e) if renormalize else d + 2 * U + 2.1 * v * (s + d)
            for part, faults in ((0.999, 0), (1.001, 1)):
                off = [w + (part * scale * bound if k == j else 0) for k, w in enumerate(exact)]
                found = judged(options, [row], bias, ids, off, rounding="bf16")
                assert len(found) == faults

    def test_a_tie_names_the_rule_that_leaves_it_open(self) -> None:
        kinds = Domain(captured=False, logits_kind=("close_biases",))
        failure = check(wrong.higher_index_first, domain=kinds, checks=["agrees"]).failure
        assert failure is not None and 'router(ties="any")' in failure.finding.message
        assert check(wrong.higher_index_first, router(ties="any"), domain=kinds, checks=["agrees"]).ok

    def test_weights_alone_are_not_judged(self) -> None:
        def weights_only(logits: Any, bias: Any, num_groups: int, topk_group: int, top_k: int,
                         expert_weights: Any) -> None:  # fmt: skip
            ids_and_weights = correct.grouped_topk(logits, bias, num_groups, topk_group, top_k, 1.0, True)
            expert_weights.copy_(ids_and_weights[1])

        failure = check(weights_only, domain=UNCAPTURED).failure
        assert failure is not None
        assert "`expert_ids` is not among the outputs" in failure.finding.message

    def test_a_transposed_answer_has_the_wrong_shape(self) -> None:
        def transposed(logits: Any, bias: Any, num_groups: int, topk_group: int, top_k: int) -> Any:
            return tuple(
                x.T for x in correct.grouped_topk(logits, bias, num_groups, topk_group, top_k, 1.0, True)
            )

        failure = check(transposed, domain=replace(NO_NAN, min_requests=1)).failure
        assert failure is not None and "has shape" in failure.finding.message

    def test_the_smallest_case_has_few_experts(self) -> None:
        verdict = check(wrong.groups_ignored, checks=["agrees"], domain=UNCAPTURED)
        failure = verdict.failure
        assert failure is not None
        assert "at token 0: request 0, position 0, block" in explain(verdict)
        assert failure.case.options.router.num_experts <= 8
        assert failure.case.num_tokens_padded == 1

    def test_the_command_line_counts_rows_that_rounding_decides(self) -> None:
        target = "cumae.fixtures.correct.router:grouped_topk"
        how = "--op grouped_topk --cases 40 --no-isolate --check agrees".split()
        told = CliRunner().invoke(fuzz, [target, *how], standalone_mode=False)
        assert "decided by rounding, several answers right: " in told.output, told.output


def test_groups_that_rounding_exchanges_without_another_selection_leave_one_answer() -> None:
    tiny = 1e-7
    logits, bias = [[9.0, 9.0, 0.0, 0.0, tiny, 0.0]], [0.0] * 6
    assert rights_of_rows(logits, bias, 3, 2, 2) == [1]
    assert rights_of_rows([[9.0, 0.0, 0.0, 0.0, tiny, 0.0]], bias, 3, 2, 2) == [2]

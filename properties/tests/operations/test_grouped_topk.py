"""Which answers of a router are right: the judge against trying all."""

import math
from collections.abc import Sequence
from itertools import combinations, islice
from typing import Any

import numpy as np
import pytest

from cumae.oracle import GARBAGE, Inputs, Options, grouped_topk, margins_of, rights_of_rows
from cumae.oracle.grouped_topk import Routed, routed, weights_of
from cumae.oracle.grouped_topk_judge import _wrong_selection
from cumae.oracle.router_logits import as_stored
from cumae.oracle.router_margins import group_key, is_undefined
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.router_values import ROUTER_SHAPES
from cumae.properties.cases.seeded import seeded_cases
from cumae.properties.tests.given.routed_steps import ROUTED, U, judged, shape_of

SMALL = Domain(router_shapes=tuple(shape for shape in ROUTER_SHAPES if shape[0] <= 16))


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
             'the lower index goes first, unless the operation is cumae.router(ties="any")'),
            ([4, 5], [0.5, 0.5], "row 0: experts of group 1 are selected, those of group 0, with the same "
             "best two, are not: the lower index goes first, unless the operation is "
             'cumae.router(ties="any")'),
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

    @pytest.mark.parametrize(
        ("logits", "weights", "is_right"),
        [
            ((-20.0, -20.0), (0.9, 0.0), True),  # either score can be computed as 0
            ((-20.0, -20.0), (0.0, 0.0), True),  # and so can their sum
            ((-20.0, -20.0), (0.9, -0.1), False),
            ((-20.0, -20.0), (1.1, 0.0), False),  # no score is larger than the sum
            ((-14.0, -14.0), (0.5, 0.5), True),  # 8.3e-7, off by up to 4.8e-7
            ((-14.0, -14.0), (0.25, 0.75), True),
            ((-14.0, -14.0), (0.0, 0.0), False),
            ((-14.0, -14.0), (0.2, 0.8), False),
            ((-9.0, -9.0), (0.5, 0.5), True),
            ((-9.0, -9.0), (0.0, 0.0), False),  # the sum is below 2^-12
            ((-9.0, -9.0), (0.49, 0.51), False),
        ],
    )
    def test_small_scores_leave_weights_as_open_as_they_are_uncertain(
        self, logits: tuple[float, float], weights: tuple[float, float], is_right: bool
    ) -> None:
        options = Options.of(num_experts=4, num_groups=1, topk_group=1, top_k=2)
        said = judged(options, [[*logits, -30.0, -30.0]], [0.0] * 4, [0, 1], [*weights])
        assert (said == []) == is_right, said

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
        if ties == "lower" and any(token.bits(i) == token.bits(j) and i < j for i in left for j in ids):
            continue
        return True
    return False


def test_groups_that_rounding_exchanges_without_another_selection_leave_one_answer() -> None:
    tiny = 1e-7
    logits, bias = [[9.0, 9.0, 0.0, 0.0, tiny, 0.0]], [0.0] * 6
    assert rights_of_rows(logits, bias, 3, 2, 2) == [1]
    assert rights_of_rows([[9.0, 0.0, 0.0, 0.0, tiny, 0.0]], bias, 3, 2, 2) == [2]

"""Wrong routers fail the check that is there for it, right ones none."""

import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import cumae
from cumae import oracle
from cumae.fixtures.correct import router as correct
from cumae.oracle import LOGITS_KINDS, Options
from cumae.oracle.grouped_topk import routed, weights_of
from cumae.properties.cases.domain import Domain
from cumae.properties.commands.usage.fuzz import fuzz
from cumae.properties.operations.router import router
from cumae.properties.results.explain import explain
from cumae.properties.tests.functions import wrong_routers as wrong
from cumae.properties.tests.given.routed_steps import U, judged

PAGE = Path(__file__).parents[2] / "operations/grouped_topk.md"


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
            (wrong.groups_ignored, "agrees", "2 groups are selected|not among the best|be kept before"),
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
        verdict = check(function, dialect=dialect, domain=UNCAPTURED, examples=30)
        assert verdict.ok, verdict.failure
        assert verdict.several_right > 0

    def test_torch_topk_is_right_where_ties_go_to_any(self) -> None:
        assert check(correct.grouped_topk_by_topk, router(ties="any"), domain=UNCAPTURED, examples=30)

    def test_the_example_of_the_page_runs(self) -> None:
        (code,) = re.findall(r"(?s)```python\n(.*?)```", PAGE.read_text())
        found: dict[str, Any] = {}
        exec(code, found)
        assert found["verdict"].ok

    def test_rounding_to_bf16_is_right_where_that_is_the_rule(self) -> None:
        verdict = check(wrong.sigmoid_in_bf16, router(rounding="bf16"), domain=UNCAPTURED, examples=40)
        assert verdict.ok, verdict.failure

    def test_weights_made_in_bf16_are_right_where_that_is_the_rule(self) -> None:
        """As torch makes them: scores in the dtype of the logits, and weights in that of the scores."""
        in_bf16 = router(ties="any", rounding="bf16")
        verdict = check(wrong.all_in_bf16, in_bf16, domain=NO_NAN, examples=50)
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
        assert "rows with several right answers, decided by rounding: " in told.output, told.output


@pytest.mark.parametrize(("weight", "is_told"), [(0.57421875, True), (0.5, False), (0.5745, False)])
def test_a_weight_in_bf16_near_the_right_one_is_told(weight: float, is_told: bool) -> None:
    asked: dict[str, Any] = {"num_groups": 1, "topk_group": 1, "top_k": 1, "scaling_factor": 1.0}
    asked |= {"renormalize": False, "expert_ids": [0], "expert_weights": [weight]}
    (fault,) = oracle.grouped_topk_faults([[0.3, -2.0]], [0.0, 0.0], **asked)
    assert ('cumae.router(rounding="bf16")' in fault) == is_told


@pytest.mark.parametrize(
    ("weights", "told"),
    [
        ([0.3, 0.2], "0.4 times the right one"),
        ([0.6, 0.4], "0.8 times the right one, as without the scaling_factor of 1.25"),
        ([0.3, 0.3], ""),
        ([0, 0], ""),
    ],
)
def test_weights_off_by_one_factor_are_told_with_it(weights: list[float], told: str) -> None:
    """Of experts whose scores are 0.6 and 0.4, with a factor of 1.25 for 0.75 and 0.5."""
    logit = [math.log(0.6 / 0.4), math.log(0.4 / 0.6)]
    asked: dict[str, Any] = {"num_groups": 1, "topk_group": 1, "top_k": 2, "scaling_factor": 1.25}
    asked |= {"renormalize": True, "expert_ids": [0, 1], "expert_weights": weights}
    (fault,) = oracle.grouped_topk_faults([logit], [0.0, 0.0], **asked)
    assert fault.endswith(f": each weight of the row is {told}") == bool(told)


def test_an_expert_of_a_group_that_is_not_kept_is_told_with_its_group() -> None:
    """Groups 0 and 1 of two experts each; the first one's best two sum higher."""
    asked: dict[str, Any] = {"num_groups": 2, "topk_group": 1, "top_k": 2, "scaling_factor": 1.0}
    asked |= {"renormalize": False, "expert_ids": [2, 3]}
    (fault,) = oracle.grouped_topk_faults([[1.0, 2.0, 3.0, -9.0]], [0.0] * 4, **asked)
    assert fault.startswith("row 0: expert 2 is selected, its group 1 is not among the best 1: ")

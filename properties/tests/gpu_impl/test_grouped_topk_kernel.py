"""The experts of each token: float64 where margins are clear, ties, NaN, infinities, refusals."""

import math
import re
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from cumae import gpu_impl
from cumae.properties.running.device import prepare

DEVICE = prepare("auto")
pytestmark = pytest.mark.usefixtures("watched")
U = 2.0**-24
INF, NAN = math.inf, math.nan
# Experts, groups, groups kept, experts taken.
SHAPES = [(256, 8, 4, 8), (24, 4, 2, 5), (160, 8, 3, 6), (6, 3, 1, 2), (384, 1, 1, 8), (10, 5, 5, 10)]
SHAPES += [(80, 40, 5, 9)]


@pytest.fixture(autouse=True, params=["few", "many"])
def _tokens(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test with the launches for few tokens and with those for many."""
    if request.param == "many":
        monkeypatch.setattr("cumae.gpu_impl.grouped_topk.MOST_OF_FEW", 0)


def sigmoid(logit: float) -> float:
    return 0.0 if logit < -700 else 1 / (1 + math.exp(-logit))


def choices_of(logits: list[float], bias: list[float]) -> list[float]:
    return [-INF if math.isnan(x) else sigmoid(x) + b for x, b in zip(logits, bias, strict=True)]


def expected_ids(
    choices: list[float], num_groups: int, topk_group: int, top_k: int
) -> tuple[list[int], float]:
    """Return the experts, best first, and by how much the last of them, or of the groups, was taken."""
    size = len(choices) // num_groups
    sums = [sum(sorted(choices[g * size : (g + 1) * size])[-2:]) for g in range(num_groups)]
    groups = sorted(range(num_groups), key=lambda g: (-sums[g], g))
    experts = [g * size + j for g in sorted(groups[:topk_group]) for j in range(size)]
    experts.sort(key=lambda e: (-choices[e], e))
    margins = [sums[a] - sums[b] for a, b in [(groups[topk_group - 1], g) for g in groups[topk_group:]]]
    margins += [choices[a] - choices[b] for a, b in pairwise(experts[: top_k + 1])]
    return experts[:top_k], min(margins, default=1.0)


def routed(
    logits: torch.Tensor,
    bias: torch.Tensor,
    num_groups: int,
    topk_group: int,
    top_k: int,
    scaling_factor: float = 1.0,
    renormalize: bool = True,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the experts and weights written."""
    ids = torch.full((len(logits), top_k), 77, dtype=torch.int32, device=DEVICE)
    weights = torch.full((len(logits), top_k), 77.0, device=DEVICE)
    gpu_impl.write_grouped_topk(
        logits.to(DEVICE),
        bias.to(DEVICE),
        num_groups,
        topk_group,
        top_k,
        ids,
        weights,
        scaling_factor,
        renormalize,
    )
    return ids, weights


def run(
    logits: torch.Tensor,
    bias: torch.Tensor,
    num_groups: int,
    topk_group: int,
    top_k: int,
    scaling_factor: float = 1.0,
    renormalize: bool = True,
) -> tuple[list[list[int]], list[list[float]]]:
    ids, weights = routed(logits, bias, num_groups, topk_group, top_k, scaling_factor, renormalize)
    return ids.tolist(), weights.tolist()


def picked(
    rows: list[list[float]], bias: list[float], num_groups: int, topk_group: int, top_k: int
) -> list[list[int]]:
    return run(torch.tensor(rows), torch.tensor(bias), num_groups, topk_group, top_k)[0]


@pytest.mark.parametrize("renormalize", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", SHAPES)
def test_clear_margins_and_weights_agree_with_float64(
    shape: tuple[int, int, int, int], dtype: torch.dtype, renormalize: bool
) -> None:
    num_experts, num_groups, topk_group, top_k = shape
    generator = torch.Generator().manual_seed(num_experts)
    logits = (torch.randn(21, num_experts, generator=generator) * 3).to(dtype)
    bias = torch.randn(num_experts, generator=generator) * 0.2
    ids, weights = run(
        logits, bias, num_groups, topk_group, top_k, scaling_factor=2.5, renormalize=renormalize
    )
    clear = 0
    for row, row_ids, row_weights in zip(logits.double().tolist(), ids, weights, strict=True):
        expected, margin = expected_ids(choices_of(row, bias.tolist()), num_groups, topk_group, top_k)
        if margin > 1e-5:
            clear += 1
            assert row_ids == expected
        scores = [sigmoid(row[expert]) for expert in row_ids]
        total = sum(scores) if renormalize else 1.0
        for score, weight in zip(scores, row_weights, strict=True):
            p = score / total
            bound = 10 * U
            if renormalize:
                bound = U * ((8 + 8 * top_k * p) / (total - 8 * top_k * U) + (top_k + 3) * p)
            assert abs(weight - 2.5 * p) <= 2.5 * bound
    assert clear >= 10


@pytest.mark.parametrize("shape", SHAPES)
def test_equal_choices_go_to_the_lower_index(shape: tuple[int, int, int, int]) -> None:
    num_experts, num_groups, topk_group, top_k = shape
    values = np.array([0.3, 1.1, 2.7])
    rows = np.random.default_rng(num_experts).choice(values, (9, num_experts)).tolist()
    rows += [[1.1] * num_experts]
    bias = [-0.5] * num_experts
    # The three numbers as fp32 holds them: sums of two differ unless the two are the same.
    exact = torch.tensor(rows).double().tolist()
    expected = [expected_ids(choices_of(row, bias), num_groups, topk_group, top_k)[0] for row in exact]
    assert picked(rows, bias, num_groups, topk_group, top_k) == expected


def test_the_second_largest_of_a_group_may_equal_the_largest() -> None:
    # Sums 0.88 + 0.88 and 0.95 + 0.5: of distinct values the second group would be ahead.
    assert picked([[2.0, 2.0, -9.0, 3.0, 0.0, -9.0]], [0.0] * 6, 2, 1, 2) == [[0, 1]]


def test_a_group_has_two_largest_and_no_third() -> None:
    assert picked([[1.0, 1.0, 1.0, 2.0, 2.0, -9.0]], [0.0] * 6, 2, 1, 3) == [[3, 4, 5]]


def test_experts_of_groups_not_kept_are_below_negative_choices() -> None:
    assert picked([[2.0, 1.0, -4.0, 0.0, 0.0, 0.0]], [-5.0] * 6, 2, 1, 3) == [[0, 1, 2]]


def test_weights_leave_the_bias_out() -> None:
    ids, weights = run(torch.zeros(1, 4), torch.tensor([0.0, 5.0, -5.0, 1.0]), 1, 1, 3, scaling_factor=3.0)
    assert ids == [[1, 3, 0]]
    assert weights == [[1.0, 1.0, 1.0]]


def test_infinite_logits_score_1_and_0() -> None:
    rows = torch.tensor([[INF, -INF, 0.0, -INF], [-INF, -INF, -INF, -INF]])
    ids, weights = run(rows, torch.tensor([0.0, 0.75, 0.0, -1.0]), 1, 1, 3, renormalize=False)
    assert ids == [[0, 1, 2], [1, 0, 2]]
    assert weights == [[1.0, 0.0, 0.5], [0.0, 0.0, 0.0]]


def test_the_score_of_every_bf16_logit_is_within_8_units() -> None:
    bits = torch.arange(65536).to(torch.int16)
    logits = bits.view(torch.bfloat16)
    logits = torch.where(logits.isnan(), 0, logits).reshape(-1, 2)
    ids, weights = run(logits, torch.zeros(2), 1, 1, 2, renormalize=False)
    exact = torch.sigmoid(logits.double()).gather(1, torch.tensor(ids))
    assert float((torch.tensor(weights, dtype=torch.float64) - exact).abs().max()) <= 8 * U


def test_nan_counts_as_least_and_so_does_a_group_with_one_number() -> None:
    rows = [[NAN, 9.0, NAN, -9.0, -9.0, NAN], [1.0, NAN, -1.0, 0.0, NAN, 0.0]]
    assert picked(rows, [0.0] * 6, 2, 1, 2) == [[3, 4], [0, 2]]


@pytest.mark.parametrize("shape", SHAPES)
def test_where_too_few_experts_remain_ids_are_distinct_and_weights_finite(
    shape: tuple[int, int, int, int],
) -> None:
    num_experts, num_groups, topk_group, top_k = shape
    logits = torch.full((4, num_experts), NAN)
    logits[1, -1], logits[2, 0], logits[3, ::3] = INF, -INF, 1.0
    ids, weights = run(logits, torch.zeros(num_experts), num_groups, topk_group, top_k)
    for row_ids, row_weights in zip(ids, weights, strict=True):
        assert len(set(row_ids)) == top_k
        assert all(0 <= expert < num_experts for expert in row_ids)
        assert all(math.isfinite(weight) for weight in row_weights)


def test_sums_of_large_biases_keep_their_order() -> None:
    bias = [2e38, 2e38, 3e38, 3e38, -2e38, -2e38, -3e38, -3e38]
    assert picked([[0.0] * 8], bias, 4, 1, 2) == [[2, 3]]
    assert picked([[0.0] * 4], bias[:3:-1], 2, 1, 2) == [[2, 3]]


def test_rows_far_apart_and_more_than_one_program_has() -> None:
    generator = torch.Generator().manual_seed(1)
    wide = torch.randn(270, 11, generator=generator).to(DEVICE)
    bias = torch.rand(6, generator=generator).to(DEVICE)
    strided, weights = routed(wide[:, 2:8], bias, 2, 1, 2)
    dense = routed(wide[:, 2:8].contiguous(), bias, 2, 1, 2)
    assert torch.equal(strided, dense[0])
    assert torch.equal(weights, dense[1])
    choices = [choices_of(row, bias.tolist()) for row in wide[:, 2:8].tolist()]
    expected = [expected_ids(row, 2, 1, 2) for row in choices]
    clear = [i for i, (_, margin) in enumerate(expected) if margin > 1e-5]
    assert [strided[i].tolist() for i in clear] == [expected[i][0] for i in clear]
    assert len(clear) > 250


def test_a_bf16_bias_is_the_fp32_one_that_it_equals() -> None:
    logits, bias = torch.randn(5, 8), torch.randn(8).bfloat16()
    assert run(logits, bias, 2, 1, 3) == run(logits, bias.float(), 2, 1, 3)


def test_no_token_is_no_work() -> None:
    assert run(torch.zeros(0, 8), torch.zeros(8), 2, 1, 2) == ([], [])


def arguments() -> dict[str, Any]:
    return {
        "logits": torch.zeros(3, 6, device=DEVICE),
        "bias": torch.zeros(6, device=DEVICE),
        "num_groups": 3,
        "topk_group": 2,
        "top_k": 4,
        "expert_ids": torch.full((3, 4), 77, dtype=torch.int32, device=DEVICE),
        "expert_weights": torch.full((3, 4), 77.0, device=DEVICE),
        "scaling_factor": 1.0,
        "renormalize": True,
    }


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("logits", torch.zeros(3, 6, dtype=torch.float16, device=DEVICE), "logits.dtype = torch.float16"),
        ("logits", torch.zeros(18, device=DEVICE), "logits.shape = (18,)"),
        ("logits", torch.zeros(3, 12, device=DEVICE)[:, ::2], "logits.stride() = (12, 2)"),
        ("logits", torch.zeros(3, 2050, device=DEVICE), "logits.shape = (3, 2050)"),
        ("bias", torch.zeros(5, device=DEVICE), "bias.shape = (5,)"),
        ("bias", torch.zeros(12, device=DEVICE)[::2], "bias.stride() = (2,)"),
        ("num_groups", 4, "num_groups = 4"),
        ("num_groups", 6, "num_groups = 6"),
        ("num_groups", 0, "num_groups = 0"),
        ("topk_group", 4, "topk_group = 4"),
        ("topk_group", True, "topk_group = True"),
        ("top_k", 5, "top_k = 5"),
        ("top_k", 0, "top_k = 0"),
        ("top_k", 3, "expert_ids.shape = (3, 4)"),
        ("expert_ids", torch.zeros(3, 4, dtype=torch.int64, device=DEVICE), "expert_ids.dtype"),
        ("expert_weights", torch.zeros(2, 4, device=DEVICE), "expert_weights.shape = (2, 4)"),
        ("expert_weights", torch.zeros(4, 3, device=DEVICE).T, "expert_weights.stride() = (1, 3)"),
        ("scaling_factor", 0.0, "scaling_factor = 0.0"),
        ("scaling_factor", NAN, "scaling_factor = nan"),
        ("scaling_factor", 1e39, "scaling_factor = 1e+39"),
        ("scaling_factor", "2.5", "scaling_factor = '2.5'"),
        ("renormalize", 1, "renormalize = 1"),
    ],
)
def test_bad_input_is_refused_before_anything_is_written(field: str, value: Any, says: str) -> None:
    gpu_impl.write_grouped_topk(**arguments())
    bad = arguments() | {field: value}
    outputs = {name: bad[name].clone() for name in ("expert_ids", "expert_weights")}
    with pytest.raises(ValueError, match=rf"^{re.escape(says)}.*, must "):
        gpu_impl.write_grouped_topk(**bad)
    for name, held in outputs.items():
        assert torch.equal(bad[name], held)

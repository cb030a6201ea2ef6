"""The experts of many tokens: few, many and too many candidates, ties, NaN, infinities."""

import math

import pytest
import torch

from cumae import gpu_impl
from cumae.gpu_impl.grouped_topk_of_many import has_candidates
from cumae.properties.running.device import prepare
from cumae.properties.tests.gpu_impl.test_grouped_topk_kernel import choices_of, expected_ids, sigmoid

DEVICE = prepare("auto")
pytestmark = pytest.mark.usefixtures("watched")
INF, NAN = math.inf, math.nan
# Experts, groups, groups kept, experts taken.
SHAPES = [(256, 8, 4, 8), (160, 8, 3, 6), (60, 5, 4, 8), (96, 12, 5, 7), (128, 4, 4, 8), (126, 9, 1, 2)]
SHAPES += [(512, 16, 8, 16), (1024, 128, 1, 1), (256, 32, 8, 1), (100, 4, 3, 3)]


@pytest.fixture(autouse=True)
def _many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cumae.gpu_impl.grouped_topk.MOST_OF_FEW", 0)


def picked(
    logits: torch.Tensor, bias: torch.Tensor, num_groups: int, topk_group: int, top_k: int
) -> tuple[list[list[int]], torch.Tensor]:
    """Return the experts and weights written."""
    ids = torch.full((len(logits), top_k), 77, dtype=torch.int32, device=DEVICE)
    weights = torch.full((len(logits), top_k), 77.0, device=DEVICE)
    arguments = num_groups, topk_group, top_k, ids, weights, 2.5, True
    gpu_impl.write_grouped_topk(logits.to(DEVICE), bias.to(DEVICE), *arguments)
    return ids.tolist(), weights.cpu()


def row_with(num_candidates: int, equal: bool = False) -> list[float]:
    """Return logits for 4 of 8 groups of 32: this many are no less than the second largest of a best group.

    One of these groups has two of them, the least.
    """
    row = [-5.0] * 256
    for i in range(num_candidates - 2):
        row[96 + i % 3 * 64 + i // 3] = 1.5 if equal else 1.5 + 0.01 * i
    row[40], row[60] = 1.0, 1.1
    return row


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_here_has_candidates(shape: tuple[int, int, int, int]) -> None:
    assert has_candidates(*shape)


@pytest.mark.parametrize(
    "shape", [(6, 3, 1, 2), (384, 1, 1, 8), (10, 5, 5, 10), (256, 8, 2, 8), (2048, 64, 4, 8)]
)
def test_large_groups_small_rows_and_few_groups_have_none(shape: tuple[int, int, int, int]) -> None:
    assert not has_candidates(*shape)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", SHAPES)
def test_clear_margins_agree_with_float64(shape: tuple[int, int, int, int], dtype: torch.dtype) -> None:
    num_experts, *rest = shape
    generator = torch.Generator().manual_seed(num_experts)
    logits = torch.randn(19, num_experts, generator=generator).to(dtype)
    bias = torch.randn(num_experts, generator=generator) * 0.2
    ids, weights = picked(logits, bias, *rest)
    clear = 0
    for row, row_ids, row_weights in zip(logits.double().tolist(), ids, weights.tolist(), strict=True):
        expected, margin = expected_ids(choices_of(row, bias.tolist()), *rest)
        if margin > 1e-5:
            clear += 1
            assert row_ids == expected
            scores = [sigmoid(row[expert]) for expert in row_ids]
            assert row_weights == pytest.approx([2.5 * score / sum(scores) for score in scores], abs=1e-5)
    assert clear >= 10


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weights_are_those_of_few_tokens(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    logits = torch.randn(9, 256, generator=torch.Generator().manual_seed(2)).to(dtype)
    bias = torch.rand(256, generator=torch.Generator().manual_seed(3)) * 0.1
    ids, weights = picked(logits, bias, 8, 4, 8)
    monkeypatch.setattr("cumae.gpu_impl.grouped_topk.MOST_OF_FEW", 9)
    few_ids, few_weights = picked(logits, bias, 8, 4, 8)
    assert ids == few_ids
    assert torch.equal(weights, few_weights)


@pytest.mark.parametrize("equal", [False, True])
@pytest.mark.parametrize("num_candidates", [8, 9, 16, 17, 32, 33, 90])
def test_any_number_of_candidates(num_candidates: int, equal: bool) -> None:
    row = row_with(num_candidates, equal)
    expected = expected_ids(choices_of(row, [0.0] * 256), 8, 4, 8)[0]
    # Beside others and alone, in the first program and in the last.
    rows = [row, row_with(8), *[row] * 4]
    ids, _ = picked(torch.tensor(rows), torch.zeros(256), 8, 4, 8)
    assert [ids[0], *ids[2:]] == [expected] * 5


@pytest.mark.parametrize("shape", SHAPES)
def test_equal_choices_go_to_the_lower_index(shape: tuple[int, int, int, int]) -> None:
    num_experts, *rest = shape
    generator = torch.Generator().manual_seed(num_experts)
    # From nearly none equal to all equal.
    rows = [torch.randint(most, (num_experts,), generator=generator) / most for most in (1, 3, 20, 60, 200)]
    logits, bias = torch.stack(rows) * 4, [-0.5] * num_experts
    expected = [expected_ids(choices_of(row, bias), *rest)[0] for row in logits.double().tolist()]
    assert picked(logits, torch.tensor(bias), *rest)[0] == expected


def test_choices_that_hardly_differ_are_all_found() -> None:
    # The least number above 0 at 5, and 0 at the others of five candidates.
    logits, bias = torch.zeros(1, 128), torch.full((128,), -1.0)
    best = [3, 4, 5, 40, 41]
    logits[0, best], bias[best] = -INF, 0.0
    bias[5] = 2.0**-149
    assert sorted(picked(logits, bias, 4, 2, 3)[0][0]) == [3, 4, 5]


def test_nan_and_infinite_logits_beside_other_rows() -> None:
    generator = torch.Generator().manual_seed(5)
    logits = torch.randn(7, 256, generator=generator)
    bias = torch.randn(256, generator=generator) * 0.2
    logits[1] = NAN
    # Rows 2 and 5 keep numbers enough; in row 5 all others of four groups are NaN but three a group.
    logits[2, ::3], logits[2, 1::7] = NAN, -INF
    logits[4, :40] = INF
    logits[5, 128:] = NAN
    logits[5].view(8, 32)[:4, 3:] = NAN
    ids, weights = picked(logits, bias, 8, 4, 8)
    for i in (0, 2, 3, 4, 5, 6):
        expected, margin = expected_ids(choices_of(logits[i].tolist(), bias.tolist()), 8, 4, 8)
        assert margin > 1e-6
        assert ids[i] == expected
    assert len(set(ids[1])) == 8
    assert weights.isfinite().all()


def test_a_kept_group_with_one_number_bounds_nothing() -> None:
    # The experts come from the three groups with numbers; the fourth has none or one.
    row = torch.full((8, 32), NAN)
    row[2], row[5], row[7], row[0, 3] = torch.arange(32) * 0.01, torch.arange(32) * 0.02, 0.5, -9.0
    row = row.flatten()
    expected = expected_ids(choices_of(row.tolist(), [0.0] * 256), 8, 4, 8)[0]
    assert picked(torch.stack([row, row]), torch.zeros(256), 8, 4, 8)[0] == [expected] * 2


def test_large_biases_keep_their_order() -> None:
    bias = torch.zeros(128)
    bias[::32], bias[1::32] = (
        torch.tensor([3e38, -3e38, 2e38, 1e38]),
        torch.tensor([1e38, 0.0, 3e38, -3.4e38]),
    )
    ids, _ = picked(torch.zeros(2, 128), bias, 4, 2, 4)
    assert ids == [[0, 65, 64, 1]] * 2

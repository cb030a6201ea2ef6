"""Inputs of one's own: arrays and numbers that a dialect is extended by."""

from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

import cumae
from cumae.oracle import ANY, Batch, Case
from cumae.properties.dialects import VLLM


def test_an_extended_dialect_fills_the_new_names() -> None:
    mine = VLLM.extend(
        my_lens=lambda case: np.array([[r.query_len, 7] for r in case.batch.requests], dtype=np.int64),
        my_count=lambda case: len(case.batch.requests),
    )
    seen = []

    def starts(my_lens: torch.Tensor, my_count: int, query_start_loc: torch.Tensor) -> None:
        seen.append((my_lens.dtype, my_count))
        query_start_loc[0] = 0
        ends = my_lens.reshape(-1, 2)[:, 0].cumsum(0).int()
        query_start_loc[1:] = ends[-1] if len(ends) else 0
        query_start_loc[1 : my_count + 1] = ends

    domain = cumae.Domain(captured=False, min_requests=1)
    verdict = cumae.check(starts, "sequence_layout", dialect=mine, domain=domain, examples=20, save_to=None)
    assert verdict.ok, verdict.failure
    assert seen[0][0] == torch.int64
    with pytest.raises(ValueError, match="input = 'seq_lens', must be new"):
        VLLM.extend(seq_lens=lambda case: 0)
    with pytest.raises(ValueError, match="mine = 'list', must be a number, a string, None or a NumPy array"):
        cumae.tensors(Case(Batch((), 1)), VLLM.extend(mine=lambda case: [1]), names=["mine"])


@pytest.mark.parametrize("strided", [False, True])
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "int64", "float16", "float32"])
def test_an_input_of_ones_own_has_the_dtype_and_shape_of_its_array(dtype: str, strided: bool) -> None:
    given = (np.arange(24) * 2 % 5).astype(dtype).reshape(2, 3, 4)
    given = given.transpose(2, 0, 1) if strided else given
    mine = VLLM.extend(mine=lambda case: given)
    held = cumae.tensors(Case(Batch((), 1)), mine, names=["mine"])["mine"]
    assert str(held.dtype) == f"torch.{dtype}"
    assert np.array_equal(held.cpu().numpy(), given)
    assert held.is_contiguous()


@pytest.mark.parametrize("value", [0.25, np.float32(0.25), np.int64(7), np.bool_(True)])
def test_a_host_number_of_ones_own_may_be_of_any_type(value: Any) -> None:
    given = cumae.tensors(Case(Batch((), 1)), VLLM.extend(mine=lambda case: value), names=["mine"])["mine"]
    assert given == value
    assert type(given) in (bool, int, float)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (np.zeros(2, dtype=np.float64), "mine.dtype = 'float64', must be bool, uint8, int32, int64, float16"),
        (np.array(3), r"mine.shape = \(\), must have a dimension"),
    ],
)
def test_another_array_of_ones_own_is_refused(value: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        cumae.tensors(Case(Batch((), 1)), VLLM.extend(mine=lambda case: value), names=["mine"])


@pytest.mark.parametrize("fault", ["", "index"])
def test_a_function_on_numbers_of_ones_own_is_judged(fault: str) -> None:
    class Biggest(NamedTuple):
        biggest: Any

    def biggest(scores: list[list[float]]) -> Biggest:
        return Biggest(max(max(row) for row in scores) if scores else ANY)

    def scores_of(case: Case) -> Any:
        lens = [request.seq_len for request in case.batch.requests]
        return np.array([[n / 8, -n] for n in lens], dtype=np.float32).reshape(-1, 2)

    def of_tensor(scores: torch.Tensor, biggest: torch.Tensor) -> None:
        if len(scores):
            biggest[0] = scores[1 if fault else 0 :].max() if len(scores) > 1 else scores.max()

    operation = cumae.Operation("biggest", biggest, (cumae.Output("biggest", "fp32", "step"),))
    domain = cumae.Domain(captured=False, min_requests=1, all_but=("never_synchronises", "writes_everything"))
    mine = VLLM.extend(scores=scores_of)
    verdict = cumae.check(of_tensor, operation, dialect=mine, domain=domain, examples=40, save_to=None)
    assert verdict.ok is not bool(fault), verdict.failure

"""Memory that a function allocates holds poison, on the host too."""

from typing import Any

import numpy as np
import pytest
import torch

from cumae.properties.cases.domain import Domain
from cumae.properties.running.allocations import FencedAllocations
from cumae.properties.running.bench import POISON
from cumae.properties.running.device import prepare
from cumae.properties.search.direct import check

DEVICE = prepare("auto")


GRAPHS: list[Any] = []


def kept(graph: Any, inputs: Any) -> Any:
    GRAPHS.append(graph)
    return graph.forward


def test_scratch_memory_of_numpy_holds_poison() -> None:
    plain = np.empty, np.empty_like
    with FencedAllocations(POISON):
        made = [np.empty((2, 3), dtype=np.int32), np.empty(2, order="F"), np.empty_like(np.ones((3, 2)).T)]
        objects, nothing = np.empty(1, dtype=object), np.empty(0)
    assert all(set(each.tobytes()) == {POISON} for each in made)
    assert objects[0] is None and nothing.size == 0
    assert (np.empty, np.empty_like) == plain


@pytest.mark.parametrize("stays", [False, True])
def test_a_compiled_function_stays_so_on_a_gpu_and_never_takes_the_mode_with_it(
    monkeypatch: pytest.MonkeyPatch, stays: bool
) -> None:
    @torch.compile(backend=kept)
    def copied(tensor: torch.Tensor) -> list[int]:
        made = torch.empty_like(tensor)
        made.copy_(tensor)
        torch._dynamo.graph_break()
        return torch.zeros(3, dtype=torch.int64).tolist()

    torch._dynamo.reset()
    GRAPHS.clear()
    monkeypatch.setattr(FencedAllocations, "ignore_compile_internals", classmethod(lambda cls: stays))
    for _ in range(3):
        with FencedAllocations(POISON):
            copied(torch.ones(4))
    assert len(GRAPHS) == (2 if stays else 0), [graph.code for graph in GRAPHS]


@torch.compile(backend="eager", dynamic=True)
def seven(context_lens: torch.Tensor, position_ids: torch.Tensor) -> None:
    """Say 8 where it is compiled, and 7 elsewhere."""
    position_ids.fill_(7 + torch.compiler.is_compiling())


def test_what_a_compiled_function_says_is_judged_on_a_gpu() -> None:
    domain = Domain(max_requests=1, max_query_len=1, max_context_len=0)
    verdict = check(seven, "position_ids", domain=domain, checks=["agrees"], examples=3, save_to=None)
    assert verdict.failure is not None
    assert verdict.failure.finding.actual == ("8" if DEVICE == "cuda" else "7")


@torch.compile(backend=kept, dynamic=False, fullgraph=True)
def counted(context_lens: torch.Tensor, cu_seqlens_q: torch.Tensor, position_ids: torch.Tensor) -> None:
    rows = torch.arange(position_ids.numel(), device=position_ids.device)
    requests = torch.searchsorted(cu_seqlens_q[1:].contiguous(), rows, right=True)
    lens = torch.cat((context_lens, context_lens.new_zeros(1)))
    counts = lens[requests] + rows - cu_seqlens_q[requests]
    position_ids.copy_(torch.where(requests < context_lens.numel(), counts, 0))


def test_a_function_may_be_compiled_more_often_than_torch_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FencedAllocations, "ignore_compile_internals", classmethod(lambda cls: True))
    torch._dynamo.reset()
    GRAPHS.clear()
    verdict = check(counted, "position_ids", checks=["agrees"], examples=1, save_to=None)
    assert verdict.ok, verdict
    assert len(GRAPHS) > torch._dynamo.config.recompile_limit


@pytest.mark.parametrize(
    "said",
    [
        "Detected 2 tensor(s) in the cudagraph pool not tracked as outputs.",
        "accessing tensor output of CUDAGraphs that has been overwritten by a subsequent run.",
    ],
)
def test_a_function_in_cuda_graphs_of_torch_is_refused(said: str) -> None:
    def positions(context_lens: torch.Tensor, position_ids: torch.Tensor) -> None:
        raise RuntimeError(said)

    with pytest.raises(ValueError, match=r"^function = .positions., must be compiled without CUDA graphs, "):
        check(positions, "position_ids", examples=1, save_to=None)


@torch.library.custom_op("cumae_tests::doubled", mutates_args=("twice",))
def doubled(numbers: torch.Tensor, twice: torch.Tensor) -> torch.Tensor:
    """Write twice the numbers, and return memory that nothing was written to."""
    made = torch.empty_like(numbers)
    torch.add(numbers, numbers, out=twice)
    return made


@torch.library.custom_op("cumae_tests::tripled", mutates_args=())
def tripled(numbers: torch.Tensor) -> torch.Tensor:
    """Call another operator."""
    twice = torch.zeros_like(numbers)
    return doubled(numbers, twice) if numbers.numel() > 1 else twice.add_(numbers)


@pytest.mark.parametrize("operator", [doubled, tripled])
def test_memory_inside_an_operator_in_python_holds_poison(operator: Any) -> None:
    numbers, twice = torch.arange(1, 4, device=DEVICE), torch.zeros(3, dtype=torch.int64, device=DEVICE)
    with FencedAllocations(POISON) as allocated:
        made = doubled(numbers, twice) if operator is doubled else tripled(numbers)
    assert set(made.cpu().numpy().tobytes()) == {POISON}
    assert allocated.made(made) and not list(allocated.damage())
    assert twice.tolist() == ([2, 4, 6] if operator is doubled else [0, 0, 0])


@torch.library.custom_op("cumae_tests::of_lists", mutates_args=())
def of_lists(many: list[torch.Tensor]) -> torch.Tensor:
    """Return memory that nothing was written to."""
    return torch.empty_like(many[0])


@torch.library.custom_op("cumae_tests::of_none", mutates_args=())
def of_none(count: int, device: torch.device) -> torch.Tensor:
    """Return zeros, without a tensor as an argument."""
    return torch.zeros(count, device=device)


def test_operators_in_python_take_lists_or_no_tensor() -> None:
    with FencedAllocations(POISON) as allocated:
        made = of_lists([torch.ones(2, device=DEVICE)])
        assert of_none(3, torch.device(DEVICE)).tolist() == [0, 0, 0]
    assert allocated.made(made)


def test_an_operator_in_python_that_reads_what_nobody_wrote_is_found() -> None:
    @torch.library.custom_op("cumae_tests::positions", mutates_args=("position_ids",))
    def positions(position_ids: torch.Tensor) -> None:
        made = torch.empty_like(position_ids)
        position_ids.copy_(torch.where(made == 0x0101010101010101 * POISON, 1, 0))

    verdict = check(positions, "position_ids", checks=("agrees",), examples=3, save_to=None)
    assert verdict.failure is not None and verdict.failure.finding.actual == "1"

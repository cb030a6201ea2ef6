"""A function under ``torch.compile`` is judged as it is compiled on a GPU, and uncompiled elsewhere."""

from typing import Any

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

    with pytest.raises(
        ValueError, match=r"^target = .positions., must be compiled without CUDA graphs of torch, "
    ):
        check(positions, "position_ids", examples=1, save_to=None)

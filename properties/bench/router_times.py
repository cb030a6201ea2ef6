"""Device times of DeepSeek-V3's router, whose choices are judged first. GPU only."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from cumae.properties.bench.clock import Timing, WrongResult, graph_time, queued_time
from cumae.properties.bench.floors import Floor
from cumae.properties.operations import OPERATIONS
from cumae.properties.operations.targets import load_function

SHAPE = {"num_groups": 8, "topk_group": 4, "top_k": 8, "scaling_factor": 2.5, "renormalize": True}
NEAR = 1e-5
"""Scores that are closer than this may be taken for equal."""


def router_timings(floor: Floor) -> Iterator[Timing]:
    """Time the router on a decode step and on a large prefill, with logits of both dtypes."""
    for kernel in OPERATIONS["grouped_topk"].kernels:
        for num_tokens in (256, 65_536):
            for dtype in (torch.bfloat16, torch.float32):
                arguments = router_arguments(num_tokens, dtype, "cuda")
                run = partial(load_function(kernel), **arguments)
                size = f"{num_tokens:,} tokens, 256 experts, logits {str(dtype).removeprefix('torch.')}"
                run()
                if wrong := misrouted(arguments):
                    raise WrongResult(f"{kernel.partition(':')[2]}, {size}: {wrong}")
                moved = num_tokens * (256 * dtype.itemsize + 8 * 8)
                times = *graph_time(run), None, queued_time(run)[0], floor.of(moved)
                yield Timing(kernel.partition(":")[2], size, *times)


def router_call(kernel: str, num_tokens: int, dtype: torch.dtype) -> Callable[[], None]:
    """Return a call of the router on random logits."""
    return partial(load_function(kernel), **router_arguments(num_tokens, dtype, "cuda"))


def router_arguments(num_tokens: int, dtype: torch.dtype, device: str) -> dict[str, Any]:
    """Return the arguments of a router of 256 experts on random logits."""
    return {
        "logits": torch.randn((num_tokens, 256), device=device, dtype=torch.float32).to(dtype),
        "bias": torch.rand(256, device=device) / 5 - 0.1,
        **SHAPE,
        "expert_ids": torch.full((num_tokens, 8), -7, device=device, dtype=torch.int32),
        "expert_weights": torch.full((num_tokens, 8), -7.0, device=device, dtype=torch.float32),
    }


def misrouted(arguments: dict[str, Any]) -> str:
    """Return the first token with wrong experts or weights, empty if there is none.

    Tokens whose fourth group, or eighth expert, is as good as the next one within rounding are not judged.
    """
    scores = arguments["logits"].double().sigmoid()
    biased = scores + arguments["bias"].double()
    groups = biased.view(len(biased), SHAPE["num_groups"], -1)
    of_groups = groups.topk(2).values.sum(-1)
    best, kept = of_groups.topk(SHAPE["topk_group"] + 1)
    mask = torch.full_like(of_groups, -torch.inf).scatter(1, kept[:, :-1], 0.0)
    best_experts, experts = (groups + mask[..., None]).flatten(1).topk(SHAPE["top_k"] + 1)
    is_clear = (best[:, -2] - best[:, -1] > NEAR) & (best_experts[:, -2] - best_experts[:, -1] > NEAR)
    chosen, weights = arguments["expert_ids"].long(), arguments["expert_weights"]
    wrong = (chosen.sort().values != experts[:, :-1].sort().values).any(1)
    share = scores.gather(1, chosen.clamp(0, 255))
    must = share / share.sum(1, keepdim=True) * SHAPE["scaling_factor"]
    wrong |= ~((weights - must).abs() <= NEAR).all(1)  # also for NaN
    wrong &= is_clear
    if not is_clear.float().mean() > 0.9:
        return "fewer than nine of ten tokens could be judged"
    return f"token {int(wrong.nonzero()[0])} goes to wrong experts or weights" if wrong.any() else ""

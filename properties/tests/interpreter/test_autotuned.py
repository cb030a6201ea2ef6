"""An autotuned kernel in the interpreter: any configuration may be chosen, and tuning runs it, too."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from cumae.properties.checks import CheckName
from cumae.properties.running.device import prepare
from cumae.properties.search.direct import check

if prepare("auto") == "cuda":
    pytest.skip("nothing is interpreted where there is a GPU", allow_module_level=True)

CHECKS: tuple[CheckName, ...] = (
    "agrees",
    "writes_everything",
    "stays_in_bounds",
    "is_deterministic",
    "forgets_history",
)
Launch = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], None]


@triton.jit
def _positions(
    cu_seqlens_q: Any,
    context_lens: Any,
    position_ids: Any,
    last: Any,
    FIRST: tl.constexpr,
    ADDS: tl.constexpr,
) -> None:
    tl.static_assert(FIRST < 2, "a configuration that is never taken")
    request = tl.program_id(0)
    start = tl.load(cu_seqlens_q + request)
    for i in range(start, tl.load(cu_seqlens_q + request + 1)):
        position = (tl.load(context_lens + request) + i - start + FIRST).to(tl.int64)
        if ADDS:
            tl.atomic_add(position_ids + i, position)
        else:
            tl.store(position_ids + i, position)


def launching(configs: list[triton.Config], *, clears: bool = True, adds: bool = False, **how: Any) -> Launch:
    """Return a function that launches a kernel of its own, autotuned over these configurations."""
    kernel = triton.autotune(configs, key=["last"], **how)(_positions)

    def launch(cu_seqlens_q: torch.Tensor, context_lens: torch.Tensor, position_ids: torch.Tensor) -> None:
        if clears or not context_lens.numel():
            position_ids.zero_()
        if context_lens.numel():
            given = cu_seqlens_q, context_lens, position_ids, context_lens.numel()
            kernel[(context_lens.numel(),)](*given, ADDS=adds)

    return launch


def config(first: int = 0, **more: Any) -> triton.Config:
    return triton.Config({"FIRST": first}, **more)


SAME = [config(), config(num_warps=8)]


def zeroed(arguments: dict[str, Any], reset_only: bool = False) -> None:
    arguments["position_ids"].zero_()


def without_first(configs: list[triton.Config], _: dict[str, Any], **__: Any) -> list[triton.Config]:
    return configs[1:]


RIGHT = {
    "alike": launching(SAME),
    "one": launching([config()]),
    "a static assertion": launching([config(2), *SAME]),
    "pruned": launching([config(1), *SAME], prune_configs_by={"early_config_prune": without_first}),
    "pruned to one": launching([config(1), config()], prune_configs_by={"early_config_prune": without_first}),
    "restored": launching(SAME, adds=True, restore_value=["position_ids"]),
    "reset": launching(SAME, adds=True, reset_to_zero=["position_ids"]),
    "cleared before": launching(
        [config(pre_hook=zeroed), config(pre_hook=zeroed, num_warps=8)], clears=False, adds=True
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_kernel_agrees(name: str) -> None:
    verdict = check(RIGHT[name], "position_ids", checks=CHECKS, examples=12, save_to=None)
    assert verdict.ok, verdict.failure and verdict.failure.finding.message


WRONG = {
    "the first": (launching([config(1), config()]), "autotuning ran _positions twice and chose FIRST=1"),
    "the second": (launching([config(), config(1)]), "autotuning ran _positions twice and chose FIRST=1"),
    "its one": (launching([config(1)]), "differs from the oracle"),
    "left by pruning": (
        launching([config(), config(1)], prune_configs_by={"early_config_prune": without_first}),
        "autotuning chose FIRST=1, num_warps=4, num_ctas=1, num_stages=3 of _positions",
    ),
    "adds in each run": (launching(SAME, adds=True), "autotuning ran _positions twice and chose FIRST=0"),
    "reset in tuning only": (
        launching(SAME, clears=False, adds=True, reset_to_zero=["position_ids"]),
        "autotuning ran _positions twice",
    ),
    "never asserted away": (launching([config(2), config(3)]), "never taken"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_kernel_that_tuning_makes_wrong_is_found(name: str) -> None:
    launch, told = WRONG[name]
    verdict = check(launch, "position_ids", checks=CHECKS, examples=40, save_to=None)
    assert verdict.failure is not None
    assert told in verdict.failure.finding.message


def test_the_configurations_stay() -> None:
    kernel = triton.autotune(SAME, key=["last"])(_positions)

    def launch(cu_seqlens_q: torch.Tensor, context_lens: torch.Tensor, position_ids: torch.Tensor) -> None:
        position_ids.zero_()
        if context_lens.numel():
            given = cu_seqlens_q, context_lens, position_ids, context_lens.numel()
            kernel[(context_lens.numel(),)](*given, ADDS=False)

    assert check(launch, "position_ids", checks=("agrees",), examples=3, save_to=None)
    assert kernel.configs == SAME and not kernel.cache

"""The positions that a token reads: those of its selected groups, and those behind the last whole one."""

from collections.abc import Callable
from typing import Any

import torch
import triton

from cumae.properties.dialects import CUMAE
from cumae.properties.engines.flashinfer.engine import ENGINE
from cumae.properties.engines.selected_groups import STEPS, Lists, with_groups

Tensor = torch.Tensor
_KERNELS = "flashinfer/experimental/b12x/attention/qsa/_kernels.py"


def _free(_: int) -> list[int]:
    """Return the column behind the positions, which none ever takes."""
    return [-1]


@ENGINE.adapts(
    _KERNELS,
    "_expand_selected_groups_kernel",
    operation="window_slots",
    dialect=with_groups(CUMAE, Lists(behind=_free)),
    domain=STEPS,
)
def expanded_groups(kernel: Any) -> Callable[..., None]:
    """On one rank, without columns between."""

    def launch(
        group_ids: Tensor, eligible: Tensor, places: Tensor, group_size: int, selected_positions: Tensor
    ) -> None:
        (count, width), budget = selected_positions.shape, group_ids.shape[1]
        sizes = (budget, width, budget, group_size, width, 1, 0, group_size, triton.next_power_of_2(width))
        kernel[(count,)](group_ids, eligible, places, selected_positions, *sizes)

    return launch


@ENGINE.adapts(
    _KERNELS,
    "_expand_global_selected_groups_kernel",
    operation="window_slots",
    dialect=with_groups(CUMAE, Lists(is_sharded=True, keeps_columns=True, free_id=-1, behind=_free)),
    domain=STEPS,
)
def expanded_groups_of_a_rank(kernel: Any) -> Callable[..., None]:
    """Those of one rank, each in the column that it has on all ranks."""

    def launch(
        group_ids: Tensor,
        places: Tensor,
        group_size: int,
        num_ranks: int,
        own_rank: int,
        groups_in_a_row: int,
        selected_positions: Tensor,
    ) -> None:
        (count, width), budget = selected_positions.shape, group_ids.shape[1]
        ranks = num_ranks, own_rank, groups_in_a_row * group_size
        sizes = (budget, width, budget, group_size, width, *ranks, triton.next_power_of_2(width))
        kernel[(count,)](group_ids, places, selected_positions, *sizes)

    return launch

"""Arrays that adapters hand to released functions: integers of a case, and room for outputs nobody judges."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from cumae.oracle import Case


def int32(values: Callable[[Case], Sequence[Any]]) -> Callable[[Case], Any]:
    """Return an input of int32 numbers of a case; nested lists give more dimensions."""
    return lambda case: np.array([*values(case)], dtype=np.int32)


def int32_room(count: int, like: torch.Tensor) -> torch.Tensor:
    """Return room for ``count`` int32 numbers, not initialised, on the device of another tensor."""
    return torch.empty(count, dtype=torch.int32, device=like.device)

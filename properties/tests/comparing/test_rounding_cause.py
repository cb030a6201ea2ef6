"""A report names rounding only where numbers are converted, and not where they are copied."""

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any

import pytest
import torch

from cumae.fixtures.correct.cache_rows import cache_write
from cumae.fixtures.correct.cumae import prefix_interleave
from cumae.oracle import Batch, Case, Options, Request
from cumae.properties.tests.helpers.guessed import cause_of

CASE = Case(
    Batch((Request(0, 1, (0,)),), 1),
    options=Options.of(row_format="fp8", kv_lora_rank=512, qk_rope_head_dim=64),
)


def one_off(right: Callable[..., None], name: str) -> Callable[..., None]:
    """Return the function that writes a first byte one bit beside the right one."""

    @wraps(right)
    def wrong(*args: Any, **named: Any) -> None:
        right(*args, **named)
        written: torch.Tensor = signature(right).bind(*args, **named).arguments[name]
        written.view(torch.uint8).flatten()[0] ^= 1

    return wrong


@pytest.mark.parametrize(
    ("right", "name", "is_told"), [(cache_write, "cache", True), (prefix_interleave, "keys", False)]
)
def test_rounding_is_told_where_rows_are_made_and_not_where_they_are_copied(
    right: Callable[..., None], name: str, is_told: bool
) -> None:
    cause = cause_of(one_off(right, name), right.__name__, CASE)
    assert cause == ("rounding: each wrong number is next to the right one" if is_told else "")

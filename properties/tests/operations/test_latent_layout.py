"""The view of a latent cache: right and without a copy where there is one, refused everywhere else."""

import re
from collections.abc import Callable
from itertools import accumulate
from operator import mul
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from cumae import gpu_impl, oracle
from cumae.properties.running.device import prepare

DEVICE = prepare("auto")
Sizes = tuple[int, ...]
SEARCHED = settings(
    max_examples=300, deadline=None, derandomize=False, suppress_health_check=[HealthCheck.too_slow]
)


def dense(shape: Sizes, order: Sizes = (0, 1, 2, 3)) -> Sizes:
    """Return strides of a tensor that has no gaps, its dimensions held in this order."""
    held = [max(shape[axis], 1) for axis in order]
    steps = list(accumulate(held[:0:-1], mul, initial=1))[::-1]
    return tuple(steps[order.index(axis)] for axis in range(4))


@st.composite
def layouts(draw: st.DrawFn) -> tuple[Sizes, Sizes, int]:
    """Return shape, strides and offset of a cache: dense, with gaps, permuted, overlapping, free at ones."""
    shape = tuple(draw(st.tuples(*[st.sampled_from((0, 1, 1, 2, 3, 4))] * 4)))
    kind = draw(st.sampled_from(("dense", "dense", "gaps", "permuted", "any")))
    strides = list(dense(shape))
    if kind == "permuted":
        strides = list(dense(shape, tuple(draw(st.permutations(range(4))))))
    if kind == "gaps":
        strides[draw(st.integers(0, 2))] += draw(st.integers(1, 9))
    if kind == "any":
        strides = list(draw(st.tuples(*[st.integers(0, 30)] * 4)))
    for axis, size in enumerate(shape):
        if size == 1 and draw(st.booleans()):
            strides[axis] = draw(st.integers(0, 99))
    return shape, tuple(strides), draw(st.integers(0, 5))


def cache_of(shape: Sizes, strides: Sizes, offset: int) -> torch.Tensor:
    span = 1 + sum(max(size - 1, 0) * stride for size, stride in zip(shape, strides, strict=True))
    return torch.arange(span + offset, device=DEVICE).as_strided(shape, strides, offset)


def problem(function: Callable[[torch.Tensor], torch.Tensor], layout: tuple[Sizes, Sizes, int]) -> str:
    """Return what is wrong with the view that a function makes of a cache, "" if nothing is."""
    cache = cache_of(*layout)
    try:
        expected: oracle.LatentLayout | None = oracle.latent_layout(cache.shape, cache.stride())
    except ValueError:
        expected = None
    try:
        view = function(cache)
    except (ValueError, RuntimeError) as error:
        if expected is not None:
            return "refused"
        named = f"{tuple(cache.shape)} with strides {cache.stride()}, must" in str(error)
        return "" if isinstance(error, ValueError) and named else "refused without shape, strides and rule"
    if expected is None:
        return "accepted"
    copy = cache.transpose(1, 2).contiguous()
    if (tuple(view.shape), view.stride()) != expected:
        return "shape or strides"
    if view.data_ptr() != cache.data_ptr():
        return "another pointer"
    if not torch.equal(view, copy):
        return "values"
    in_memory = view.as_strided((view.numel(),), (1,))
    return "" if torch.equal(in_memory, copy.reshape(-1)) else "memory"


@SEARCHED
@given(layouts())
@example(((2, 1, 3, 4), (12, 12, 4, 1), 0))
@example(((2, 3, 1, 4), (12, 4, 4, 1), 5))
@example(((0, 3, 2, 4), (24, 8, 4, 1), 0))
def test_a_view_is_that_of_the_oracle_or_refused(layout: tuple[Sizes, Sizes, int]) -> None:
    assert problem(gpu_impl.latent_layout, layout) == ""


@SEARCHED
@given(layouts())
def test_what_the_oracle_accepts_is_what_a_transposed_copy_says(layout: tuple[Sizes, Sizes, int]) -> None:
    shape, strides, _ = layout
    cache = cache_of(*layout)
    is_right = cache.is_contiguous() and (1 in shape[1:3] or 0 in shape)
    try:
        view = oracle.latent_layout(shape, strides)
    except ValueError:
        assert not is_right
        return
    assert is_right
    copy = torch.empty_like(cache.transpose(1, 2), memory_format=torch.contiguous_format)
    assert view == (tuple(copy.shape), copy.stride())


def test_the_search_reaches_both_answers() -> None:
    seen = set()

    @settings(SEARCHED, max_examples=100, database=None)
    @given(layouts())
    def search(layout: tuple[Sizes, Sizes, int]) -> None:
        seen.add(problem(lambda cache: cache, layout) == "accepted")

    search()
    assert seen == {True, False}


GAPS = ((2, 1, 3, 4), (15, 12, 4, 1), 0)
BOTH_LARGER = ((2, 3, 4, 5), (60, 20, 5, 1), 0)
FREE_AT_ONES = ((1, 1, 3, 4), (99, 7, 4, 1), 2)


def exchanged(cache: torch.Tensor) -> Sizes:
    return tuple(cache.shape[axis] for axis in (0, 2, 1, 3))


@pytest.mark.parametrize(
    ("function", "layout", "what"),
    [
        (lambda cache: cache.view(exchanged(cache)), GAPS, "accepted"),
        (lambda cache: cache.view(exchanged(cache)), BOTH_LARGER, "accepted"),
        (lambda cache: cache.transpose(1, 2).contiguous(), GAPS, "accepted"),
        (lambda cache: cache.transpose(1, 2).contiguous(), BOTH_LARGER, "accepted"),
        (lambda cache: cache.transpose(1, 2), FREE_AT_ONES, "shape or strides"),
        (
            lambda cache: gpu_impl.latent_layout(cache.clone()),
            ((2, 1, 3, 4), (12, 12, 4, 1), 0),
            "another pointer",
        ),
    ],
)
def test_a_wrong_view_is_noticed(function: Any, layout: tuple[Sizes, Sizes, int], what: str) -> None:
    assert problem(function, layout) == what


@pytest.mark.parametrize(
    ("cache", "says"),
    [
        (
            torch.zeros(2, 1, 3, 8)[..., ::2],
            "cache.shape = (2, 1, 3, 4) with strides (24, 24, 8, 2), must be contiguous",
        ),
        (
            torch.zeros(2, 3, 4, 5),
            "cache.shape = (2, 3, 4, 5) with strides (60, 20, 5, 1), must have shape[1]",
        ),
        (torch.zeros(2, 3, 4), "cache.shape = (2, 3, 4) with strides (12, 4, 1), must have four dimensions"),
        ([1, 2], "cache = [1, 2], must be a tensor"),
    ],
)
def test_what_is_refused_is_named(cache: Any, says: str) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(says)):
        gpu_impl.latent_layout(cache)


@pytest.mark.parametrize(
    ("shape", "strides", "says"),
    [
        ((2, 1, 3), (3, 3, 1), "shape = (2, 1, 3), must be four numbers"),
        ((2, 1, 3, -4), (12, 12, 4, 1), "shape[3] = -4, must be >= 0"),
        ((2, 1, 3, 4), (15, 12, 4, 1), "(shape, strides) = ((2, 1, 3, 4), (15, 12, 4, 1)), must have rows"),
        ((2, 3, 4, 5), (60, 20, 5, 1), "(shape, strides) = ((2, 3, 4, 5), (60, 20, 5, 1)), must have sha"),
    ],
)
def test_the_oracle_names_what_it_refuses(shape: Sizes, strides: Sizes, says: str) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(says)):
        oracle.latent_layout(shape, strides)


def test_nothing_but_a_view_is_asked_of_torch() -> None:
    asked = []

    class Recorded(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            asked.append(str(function))
            return function(*args, **(kwargs or {}))

    cache = torch.zeros(2, 1, 3, 4, dtype=torch.bfloat16, device=DEVICE)
    with Recorded():  # type: ignore[no-untyped-call]
        gpu_impl.latent_layout(cache)
    assert asked == ["aten.as_strided.default"]

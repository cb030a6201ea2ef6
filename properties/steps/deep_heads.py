"""Steps of many keys in heads as models have them: long prefixes, prefills, and crowds behind them."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from cumae.oracle import Case
from cumae.properties.steps.crowds import uneven_decodes
from cumae.properties.steps.ladder import Ladder

LLAMA: Mapping[str, Any] = {
    "page_order": "NHD",
    "head_format": "bf16",
    "head_dims": (128, 128),
    "num_heads": 8,
}
"""Heads of a token, and numbers of each."""
SLIM: Mapping[str, Any] = {**LLAMA, "head_dims": (16, 16)}
"""As many heads of few numbers: tens of thousands of pairs of a token and a head are little work."""
GPT_OSS: Mapping[str, Any] = {
    "page_order": "NHD",
    "head_format": "fp8",
    "head_dims": (64, 64),
    "num_heads": 8,
}


def behind(heads: Mapping[str, Any], cached: int, ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes, each behind ``cached`` tokens or more, in these heads."""
    chosen = ladder.under(**heads)
    lens = uneven_decodes(count, cached, spread=90)
    return None if chosen is None else chosen.unlimited.step(lens, seed=count, padding=(0, 0))


def prefix(heads: Mapping[str, Any], ladder: Ladder, length: int) -> Case | None:
    """Return a case of a chunk alone behind ``length`` tokens, in these heads."""
    return _chunk(heads, length, 20, ladder)


def prefill(heads: Mapping[str, Any], ladder: Ladder, length: int) -> Case | None:
    """Return a case of a chunk of ``length`` tokens alone, in these heads."""
    return _chunk(heads, 3, length, ladder)


def _chunk(heads: Mapping[str, Any], cached: int, new: int, ladder: Ladder) -> Case | None:
    chosen = ladder.under(**heads)
    if chosen is None:
        return None
    return chosen.unlimited.step([("prefill", cached, new)], seed=cached + new, padding=(0, 0))


_HND = {**LLAMA, "page_order": "HND"}
_SLIM_HND, _SLIM_FP8 = {**SLIM, "page_order": "HND"}, {**SLIM, "head_format": "fp8"}
_OWN = (1_100, 300)
DEEP_HEADS: Mapping[str, tuple[Callable[[Ladder, int], Case | None], Sequence[int]]] = {
    "a prefill of 8 slim heads, HND": (partial(prefill, _SLIM_HND), (8_200, 2_060, 1_030)),
    "a long prefix in 8 slim heads, HND": (partial(prefix, _SLIM_HND), (8_200, 2_100)),
    "a long prefix in 8 slim heads of fp8": (partial(prefix, _SLIM_FP8), (8_200, 2_100)),
    "a prefill of 8 heads, HND": (partial(prefill, _HND), (530,)),
    "contexts in 8 heads of fp8, HND": (partial(behind, {**_HND, "head_format": "fp8"}, 260), (9,)),
    "a prefill of 8 slim heads in fp8_own": (partial(prefill, {**SLIM, "head_format": "fp8_own"}), _OWN),
    "a prefill of 8 slim heads in int8_own": (partial(prefill, {**SLIM, "head_format": "int8_own"}), _OWN),
    "a prefill of 8 narrow heads in fp8": (partial(prefill, GPT_OSS), (261, 131)),
    "a prefill of 8 heads": (partial(prefill, LLAMA), (2_060, 1_030)),
    "long contexts in 8 heads": (partial(behind, LLAMA, 1_030), (5,)),
    "a long prefix in 8 heads": (partial(prefix, LLAMA), (16_500, 8_200, 2_100)),
}
"""By name: what builds the case of a size, and the sizes; the first that is not too much is visited."""

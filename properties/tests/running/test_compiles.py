"""Compiles of Triton in a search are counted, and reported if they took much of the time."""

from pathlib import Path

import pytest
import triton.language as tl
from triton import compile as compile_kernel
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction

from cumae.properties.results.explain import slow_line
from cumae.properties.results.verdict import Verdict
from cumae.properties.running.compiles import noting_compiles


def store_one(out: tl.tensor) -> None:
    tl.store(out, 1)


def test_a_variant_is_counted_once_and_a_listener_goes_on_listening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(knobs.cache, "dir", str(tmp_path))
    heard: list[bool] = []
    monkeypatch.setattr(knobs.compilation, "listener", lambda cache_hit, **_: heard.append(cache_hit))
    before = knobs.compilation.listener
    source = ASTSource(JITFunction(store_one), {"out": "*i32"}, {})
    with noting_compiles() as compiles:
        for _ in range(2):
            compile_kernel(source, target=GPUTarget("cuda", 90, 32))
    assert knobs.compilation.listener is before
    assert heard == [False, True]
    assert compiles.count == 1
    assert 0.001 < compiles.seconds < 600


def test_it_is_told_only_if_it_took_more_than_a_fifth_of_the_time() -> None:
    long = Verdict("f", "position_ids", "cumae", (), seconds=30.0, compiled=(120, 24.4))
    assert slow_line(long) == "compiling 120 variants took 24 s, which the next run saves"
    assert slow_line(Verdict("f", "position_ids", "cumae", (), seconds=30.0, compiled=(9, 5.0))) == ""

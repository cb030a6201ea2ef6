"""Threads that are slow or fast: each pattern that is called a fault is compiled without a barrier."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cumae.oracle import Batch, Case, Request
from cumae.properties.cases.domain import Domain
from cumae.properties.checks import CHECKS, Trial
from cumae.properties.interpreter.delays import Delays
from cumae.properties.interpreter.hooks import watching
from cumae.properties.interpreter.threads import Layout
from cumae.properties.operations.binding import binding_of
from cumae.properties.results.explain import explain
from cumae.properties.running.device import prepare
from cumae.properties.search.budget import Budget
from cumae.properties.search.loop import search
from cumae.properties.tests.functions import wrong_threads

if prepare("auto") == "cuda":
    pytest.skip("stores are delayed only in the interpreter", allow_module_level=True)
SCRIPT = Path(__file__).parents[1] / "helpers/compiled_threads.py"
Function = Callable[..., Any]
CHECK = "holds_in_any_order"


def case_of(num_tokens: int) -> Case:
    """Return a case of one request with 3 cached tokens."""
    blocks = tuple(range(-(-(3 + num_tokens) // 4)))
    return Case(Batch((Request(3, num_tokens, blocks, "prefill"),), 4))


def trial_of(function: Function, num_tokens: int) -> Trial:
    return Trial(binding_of(function, "position_ids"), case_of(num_tokens), "cpu")


def named(functions: tuple[Function, ...]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("function", functions, ids=lambda function: function.__name__)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return what sm_90 gets of each kernel; a process that interprets kernels cannot compile them."""
    folder = tmp_path_factory.mktemp("compiled")
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    environment |= {"TRITON_CACHE_DIR": str(folder), "TRITON_DEFAULT_FP_FUSION": "1"}
    command = [sys.executable, "-W", "ignore", str(SCRIPT)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def is_bare(accesses: list[str]) -> bool:
    """Return whether a load follows a store without a barrier between them."""
    return "st ld" in " ".join(accesses)


@named(wrong_threads.WRONG)
def test_no_barrier_is_compiled_between_the_store_and_the_load_of_a_fault(
    function: Function, compiled: Any
) -> None:
    assert all(is_bare(variant["accesses"]) for variant in compiled[f"_{function.__name__}"])


@named(wrong_threads.WRONG)
@pytest.mark.parametrize("num_tokens", [60, 700])
def test_a_load_that_misses_what_other_threads_stored_is_found(function: Function, num_tokens: int) -> None:
    trial = trial_of(function, num_tokens)
    assert CHECKS["agrees"](trial) is None and CHECKS["is_deterministic"](trial) is None
    finding = CHECKS[CHECK](trial)
    assert finding is not None
    assert "misses what other threads have stored at wrong_threads.py:" in finding.message


@named(wrong_threads.OVERTAKEN)
def test_no_barrier_is_compiled_between_the_load_and_the_store_of_a_fault(
    function: Function, compiled: Any
) -> None:
    for variant in compiled[f"_{function.__name__}"]:
        between_barriers = " ".join(variant["accesses"]).split("bar")
        assert any("ld st" in part for part in between_barriers[1:])


@named(wrong_threads.OVERTAKEN)
@pytest.mark.parametrize("num_tokens", [60, 700])
def test_a_load_that_finds_what_faster_threads_stored_is_found(function: Function, num_tokens: int) -> None:
    trial = trial_of(function, num_tokens)
    assert CHECKS["agrees"](trial) is None and CHECKS["is_deterministic"](trial) is None
    finding = CHECKS[CHECK](trial)
    assert finding is not None
    assert "finds what faster threads have stored at wrong_threads.py:" in finding.message


@named(wrong_threads.RIGHT_IN_PLACE)
@pytest.mark.parametrize("num_tokens", [5, 60, 300])
def test_a_right_kernel_that_stores_where_it_loaded_is_not_accused(
    function: Function, num_tokens: int
) -> None:
    trial = trial_of(function, num_tokens)
    watch = trial.again().watch
    assert watch is not None and watch.stores_over
    assert CHECKS[CHECK](trial) is None


@named(wrong_threads.RIGHT)
@pytest.mark.parametrize("num_tokens", [5, 60, 300])
def test_a_right_kernel_is_not_accused(function: Function, num_tokens: int) -> None:
    trial = trial_of(function, num_tokens)
    watch = trial.again().watch
    assert watch is not None and watch.loads_again
    assert CHECKS[CHECK](trial) is None


@named((*wrong_threads.WRONG, wrong_threads.moved_down, wrong_threads.reversed_in_place))
def test_a_block_of_one_warp_is_not_accused(function: Function) -> None:
    """A warp sees its own stores, and a block of 32 elements is held whole by each warp."""
    assert CHECKS[CHECK](trial_of(function, 32)) is None


def test_a_barrier_is_compiled_between_the_load_and_the_store_of_a_turned_block(compiled: Any) -> None:
    for variant in compiled["_turned_in_place"]:
        parts = [set(part.split()) for part in " ".join(variant["accesses"]).split("bar")]
        assert [part for part in parts[1:-1] if part] == [{"ld"}, {"st"}], variant


@pytest.mark.parametrize("name", ["_reversed_behind_a_barrier", "_reversed_behind_a_sum"])
def test_a_barrier_is_compiled_where_threads_are_said_to_meet(name: str, compiled: Any) -> None:
    assert not any(is_bare(variant["accesses"]) for variant in compiled[name])


def test_a_turned_block_is_laid_out_so_that_threads_load_their_own(compiled: Any) -> None:
    assert all({*variant["orders"]} >= {"[1, 0]", "[0, 1]"} for variant in compiled["_turned"])


def test_a_stale_load_that_makes_no_difference_is_a_note() -> None:
    binding = binding_of(wrong_threads.unused, "position_ids", domain=Domain(captured=False))
    verdict = search(binding, "cpu", Budget(examples=0), first=[case_of(60)])
    assert verdict.ok
    (note,) = verdict.notes
    assert note.startswith("the load at wrong_threads.py:") and "no `tl.debug_barrier`" in note
    assert explain(verdict).endswith(f"\n  {note}")


def test_a_store_of_the_value_that_was_loaded_overtakes_nothing() -> None:
    trial = trial_of(wrong_threads.moved_to_others, 60)
    assert CHECKS[CHECK](trial) is None
    assert trial.note == ""


def test_memory_has_every_store_when_the_launch_ends() -> None:
    right, out, words = torch.arange(64), torch.full((64,), -1), torch.zeros(128, dtype=torch.int64)
    delays = Delays(stores=Layout(), loads=Layout())
    with watching(threads=delays):
        wrong_threads._changes_its_own[(1,)](right, out, words, 64, TILE=64)
    assert out.tolist() == words[:64].tolist() == right.tolist()
    assert delays.stale == []


@pytest.mark.parametrize(
    ("vector_bytes", "warps"),
    [(1, [0, 0, 1, 3, 0]), (8, [0, 0, 1, 3, 0]), (16, [0, 0, 0, 1, 2])],
)
def test_a_layout_gives_the_warp_of_an_element(vector_bytes: int, warps: list[int]) -> None:
    layout = Layout(vector_bytes)
    assert [layout.warp(i, (512,), 8, 4) for i in (0, 31, 32, 127, 128)] == warps


def test_the_layout_by_columns_counts_along_the_first_axis() -> None:
    by_columns = Layout(1, by_rows=False)
    place = int(np.ravel_multi_index((32, 0), (64, 2)))
    assert by_columns.warp(place, (64, 2), 8, 4) == 1
    assert Layout(1).warp(place, (64, 2), 8, 4) == 2

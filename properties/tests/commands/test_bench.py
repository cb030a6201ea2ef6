"""What `cumae bench` times: ways that agree. The times themselves need a GPU."""

import doctest
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch

from cumae.oracle import Batch, Case, Request
from cumae.properties.bench import floors, growth
from cumae.properties.bench.clock import Timing
from cumae.properties.bench.device_times import WrongResult, timings_of
from cumae.properties.bench.plot import plot
from cumae.properties.bench.savings import changes
from cumae.properties.bench.step_times import SHAPES, drawn_step
from cumae.properties.operations.binding import binding_of
from cumae.properties.operations.targets import load_function
from cumae.properties.running.bench import Bench
from cumae.properties.running.device import prepare
from cumae.properties.tests.command_line import AS_BROKEN, BROKEN, cumae

DEVICE = prepare("auto")


@pytest.mark.parametrize("sizes", [(3, (0, 70), (0, 140)), (70, (1, 130), (1, 1)), (1, (0, 0), (300, 300))])
def test_the_ways_to_write_a_step_agree(sizes: tuple[int, tuple[int, int], tuple[int, int]]) -> None:
    step = drawn_step(DEVICE, sizes)
    found = {}
    for name, call in step.ways():
        for output in step.outputs.values():
            output.fill_(-7)
        call()
        found[name] = {n: output.clone() for n, output in step.outputs.items()}
    assert list(found) == ["straightforward torch", "four kernels", "write_step_metadata"]
    assert step.outputs["token_to_request"].min() >= 0
    for outputs in found.values():
        assert step.difference(outputs) == ""
    step.outputs["slot_mapping"][1] += 1
    slot = int(step.outputs["slot_mapping"][1])
    assert step.difference(found["four kernels"]) == f"slot_mapping[1] = {slot}, must be {slot - 1}"


def test_shapes_are_those_of_production() -> None:
    step = drawn_step("cpu", SHAPES["256 decodes"])
    assert step.num_tokens == 256
    assert step.bytes == 4 * (257 + 257 + 2 + 3 * 256) + 8 * 2 * 256 + 4 * 2 * 256


def test_growing_steps_have_the_sizes_that_they_are_named_after() -> None:
    tried = doctest.testmod(growth)
    assert (tried.attempted, tried.failed) == (1, 0)
    for grows, sweep in growth.SWEEPS.items():
        for size, (count, _, queries) in sweep.items():
            number = count * queries[0] if "tokens" in grows else count
            assert queries[0] == queries[1] and size == f"{number:,}"


def test_a_floor_counts_the_outputs_and_as_much_of_each_input() -> None:
    tried = doctest.testmod(floors)
    assert (tried.attempted, tried.failed) == (1, 0)
    case = Case(Batch((Request(0, 1, (5,)), Request(0, 1, (6,)), Request(0, 0)), 4))
    binding = binding_of(load_function("cumae.gpu_impl:write_position_ids"), "position_ids")
    call = Bench(binding, case, DEVICE).call(poison=0)
    # Two positions of 8 bytes; owners of 2 * 4, lengths of 3 * 4, and 4 * 4 of the bounds.
    assert floors.moved_by(call) == 2 * 8 + 2 * 4 + 3 * 4 + 4 * 4
    longer = Case(Batch((*case.batch.requests, *(Request(0, 0) for _ in range(9))), 4))
    assert floors.moved_by(Bench(binding, longer, DEVICE).call(poison=0)) == 2 * 8 + 2 * 4 + 2 * (2 * 8)


def test_a_plot_has_a_bar_for_each_time() -> None:
    times = [Timing("a", "1 row", 2.0, 0.1), Timing("b", "1 row", 4.0, 0.1), Timing("a", "2 rows", 9.5, 0.2)]
    picture = ElementTree.fromstring(plot(times))
    bars = [part for part in picture.iter() if part.get("class") == "new"]
    widths = [float(bar.get("width", 0)) for bar in bars]
    assert widths[0] * 2 == widths[1] == widths[2]
    words = [part.text for part in picture.iter() if part.tag.endswith("text")]
    assert words.count("a") == 2 and "9.50 µs" in words and words.count("1 row") == 1
    assert picture.get("aria-label") == "times of kernels as bars"


def test_both_ways_of_a_change_do_the_same_work() -> None:
    found = {}
    for change in changes(DEVICE, num_decodes=3, cached=128):
        assert set(change.clocks) and change.times in (1, 61)
        found[change.before_is] = change
        change.before()
        change.after()
    assert len(found) == 5
    windows = found["windows by a Python loop over requests"]
    owner = windows.after.__self__  # type: ignore[attr-defined]
    written = []
    for run in (windows.before, windows.after):
        owner.ks.fill_(-7)
        owner.ke.fill_(-7)
        run()
        written.append((owner.ks.tolist(), owner.ke.tolist()))
    assert written[0] == written[1]
    assert written[0][1][0] == 1001
    kept, rebuilt = (getattr(found["a schedule built in each step"], way)() for way in ("after", "before"))
    assert (kept.rebuilt, rebuilt.rebuilt) == (0, 1)
    assert all(torch.equal(a, b) for a, b in zip(kept[:5], rebuilt[:5], strict=True))


@pytest.mark.skipif(DEVICE == "cuda", reason="without a GPU it is refused")
def test_without_a_gpu_nothing_is_timed(tmp_path: Path) -> None:
    done = cumae("bench", BROKEN, *AS_BROKEN, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and "GPU" in done.stderr


@pytest.mark.skipif(DEVICE == "cpu", reason="times need a GPU")
def test_a_function_is_timed_only_if_it_agrees() -> None:
    right = binding_of(load_function("cumae.gpu_impl:write_position_ids"), "position_ids")
    found = timings_of(right, "cuda")
    assert {timing.kernel for timing in found} == {"write_position_ids"}
    assert all(0 < timing.microseconds < 1000 for timing in found)

    def wrong(position_ids: torch.Tensor) -> None:
        position_ids.zero_()

    with pytest.raises(WrongResult, match=r"wrong, 64 requests, 62,560 tokens: `position_ids\["):
        timings_of(binding_of(wrong, "position_ids"), "cuda")

"""Tests that `cumae bench` times ways that agree. The times themselves need a GPU."""

import doctest
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch

from cumae.oracle import Batch, Case, Request
from cumae.properties.bench import floors, growth
from cumae.properties.bench.clock import Timing, WrongResult
from cumae.properties.bench.device_times import timings_of
from cumae.properties.bench.plot import plot
from cumae.properties.bench.router_times import misrouted, router_arguments
from cumae.properties.bench.row_times import require_rows
from cumae.properties.bench.savings import changes
from cumae.properties.bench.step_times import SHAPES, drawn_step
from cumae.properties.commands import bench as bench_command
from cumae.properties.commands.progress import INTERRUPTED
from cumae.properties.operations.binding import binding_of
from cumae.properties.operations.targets import load_function
from cumae.properties.running.bench import Bench
from cumae.properties.running.device import has_gpu, prepare
from cumae.properties.running.integrity import tampering
from cumae.properties.tests.helpers.command_line import AS_BROKEN, BROKEN, cumae

DEVICE = prepare("auto")


@pytest.mark.skipif(has_gpu(), reason="there is a GPU")
def test_bench_needs_a_gpu(tmp_path: Path) -> None:
    refused = cumae("bench", cwd=tmp_path)
    told = "cumae: GPU = None, must be there: `cumae bench` times kernels on a GPU\n"
    assert (refused.returncode, refused.stderr) == (2, told)


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


def test_a_router_is_judged_before_it_is_timed() -> None:
    torch.manual_seed(3)
    right = router_arguments(40, torch.bfloat16, DEVICE)
    load_function("cumae.gpu_impl:write_grouped_topk")(**right)
    assert misrouted(right) == ""
    ids, weights = right["expert_ids"], right["expert_weights"]
    others = ids.clone()
    others[7, 2] = next(e for e in range(256) if e not in ids[7].tolist())
    assert misrouted(right | {"expert_ids": others}) == "token 7 goes to wrong experts or weights"
    twice = ids.clone()
    twice[5, 1] = twice[5, 0]
    assert misrouted(right | {"expert_ids": twice}) == "token 5 goes to wrong experts or weights"
    assert "token 0 " in misrouted(right | {"expert_weights": weights * 1.001})
    assert "token 0 " in misrouted(right | {"expert_weights": weights * torch.nan})
    unwritten = router_arguments(40, torch.bfloat16, DEVICE)
    assert "token 0 " in misrouted(unwritten)
    level = right | {"logits": torch.zeros_like(right["logits"]), "bias": torch.zeros_like(right["bias"])}
    assert misrouted(level) == "fewer than nine of ten tokens could be judged"


@pytest.mark.parametrize(("dtype", "width"), [(torch.bfloat16, 576), (torch.uint8, 656)])
def test_rows_are_judged_before_they_are_timed(dtype: torch.dtype, width: int) -> None:
    new = torch.randn((5, 576), device=DEVICE).to(torch.bfloat16)
    slots = torch.tensor([3, 0, 7, 4, 1], device=DEVICE)
    cache = torch.zeros((2, 4, width), dtype=dtype, device=DEVICE)
    load_function("cumae.gpu_impl:write_cache")(new, slots, cache, False)
    require_rows("rows", new, slots, cache)
    with pytest.raises(WrongResult, match="rows: a row is not in its slot"):
        require_rows("rows", new, slots.flip(0), cache)
    cache.view(torch.uint8)[0, 1, -1] ^= 1
    with pytest.raises(WrongResult, match="rows: a row is not in its slot"):
        require_rows("rows", new, slots, cache)


@pytest.mark.parametrize(
    ("ends", "status", "told"),
    [
        (WrongResult("b, 2 rows: wrong"), 1, "not timed, because wrong: b, 2 rows: wrong"),
        (KeyboardInterrupt(), INTERRUPTED, "interrupted: 1 measured"),
        (RuntimeError("out of memory"), None, ""),
    ],
)
def test_what_was_timed_is_kept_when_a_later_function_fails(
    ends: BaseException,
    status: int | None,
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def timed(*given: Any) -> Iterator[Timing]:
        yield Timing("a", "1 row", 2.0, 0.1)
        raise ends

    tampering()
    monkeypatch.setattr(bench_command, "_gpu", lambda: "cuda")
    monkeypatch.setattr(bench_command, "timings", timed)
    file, picture = tmp_path / "out.json", tmp_path / "out.svg"
    try:
        done = bench_command.bench(None, None, "cumae", picture, file)
    except RuntimeError as error:
        done = None
        assert error is ends
    assert done == status
    content = json.loads(file.read_text())
    assert [one["kernel"] for one in content["timings"]] == ["a"]
    assert "growth" not in content and picture.exists()
    said = capsys.readouterr().out
    assert said.startswith("a  ") and told in said


@pytest.mark.skipif(DEVICE == "cuda", reason="without a GPU it is refused")
def test_without_a_gpu_nothing_is_timed(tmp_path: Path) -> None:
    done = cumae("bench", BROKEN, *AS_BROKEN, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and "GPU" in done.stderr


@pytest.mark.skipif(DEVICE == "cpu", reason="times need a GPU")
def test_a_function_is_timed_only_if_it_agrees() -> None:
    right = binding_of(load_function("cumae.gpu_impl:write_position_ids"), "position_ids")
    found = list(timings_of(right, "cuda"))
    assert {timing.kernel for timing in found} == {"write_position_ids"}
    assert all(0 < timing.microseconds < 1000 for timing in found)

    def wrong(position_ids: torch.Tensor) -> None:
        position_ids.zero_()

    with pytest.raises(WrongResult, match=r"wrong, 64 requests, 62,560 tokens: `position_ids\["):
        list(timings_of(binding_of(wrong, "position_ids"), "cuda"))

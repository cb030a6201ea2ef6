"""Pointers made from integers reach the tensor that their word points into; arguments have their widths."""

import gc
from contextlib import suppress
from importlib.metadata import version
from itertools import chain
from typing import Any

import pytest
import torch

from cumae import Domain
from cumae.oracle import Batch, Case, Layout, Request
from cumae.properties.checks import CHECKS, Trial, checks_for
from cumae.properties.interpreter import hooked
from cumae.properties.interpreter import hooks as interpreter
from cumae.properties.interpreter.hooks import watching
from cumae.properties.interpreter.region import Region
from cumae.properties.interpreter.watch import Watch
from cumae.properties.operations.binding import binding_of
from cumae.properties.running import probes
from cumae.properties.running.allocations import GUARD_BYTES, FencedAllocations
from cumae.properties.running.device import prepare
from cumae.properties.search.budget import Budget
from cumae.properties.search.loop import search
from cumae.properties.tests.functions import addressed as raw

pytestmark = pytest.mark.skipif(prepare("auto") == "cuda", reason="accesses are watched in the interpreter")


def table(*tensors: torch.Tensor) -> torch.Tensor:
    return torch.tensor([tensor.data_ptr() for tensor in tensors], dtype=torch.uint64)


def numbers(first: int, count: int = 4) -> torch.Tensor:
    return torch.arange(first, first + count, dtype=torch.int32)


def told(watch: Watch) -> list[str]:
    return [str(access).partition(", at ")[0] for access in watch.outside]


def region(name: str, tensor: torch.Tensor) -> Region:
    start = tensor.data_ptr()
    return Region(name, start, start + tensor.nbytes, tensor.element_size())


def test_a_loaded_address_reaches_a_tensor_that_is_no_argument() -> None:
    first, second, answer = numbers(10), numbers(20), torch.zeros(8, dtype=torch.int32)
    with watching() as watch:
        raw.gathers[(2,)](table(first, second), answer, 4, FROM=0)
    assert answer.tolist() == [10, 11, 12, 13, 20, 21, 22, 23]
    assert watch.outside == []


def test_stores_and_atomics_through_a_block_of_pointers_arrive() -> None:
    first, second = numbers(10), numbers(20, 8)
    with watching() as watch:
        raw.scatters[(1,)](table(first, second[4:]), FROM=0)
    assert (first.tolist(), second.tolist()) == ([7] * 4, [20, 21, 22, 23, 7, 7, 7, 7])
    assert watch.outside == []


def test_each_lane_reaches_its_own_tensor_and_not_the_neighbour() -> None:
    both = numbers(0, 8)
    with watching() as watch:
        watch.given = lambda: [region("first", both[:4]), region("second", both[4:])]
        raw.scatters[(1,)](table(both[:4], both[4:]), FROM=2)
    assert told(watch) == [
        "store of element 4 of `first`, which has 4",
        "atomic of element 4 of `first`, which has 4",
        "exchange of element 4 of `first`, which has 4",
    ]
    assert both.tolist()[4:6] == [4, 5]


def test_an_overrun_into_a_neighbour_that_lives_is_masked_off() -> None:
    workspace, answer = numbers(0, 8), torch.zeros(4, dtype=torch.int32)
    with watching() as watch:
        watch.given = lambda: [region("first", workspace[:4]), region("second", workspace[4:])]
        raw.gathers[(1,)](table(workspace), answer, 4, FROM=3)
    assert told(watch) == ["load of element 4 of `first`, which has 4"]
    assert answer.tolist() == [3, -1, -1, -1]


def test_an_argument_that_is_overrun_reaches_nothing_that_only_an_address_may() -> None:
    both, answer = numbers(0, 8), torch.zeros(4, dtype=torch.int32)
    with watching() as watch:
        watch.given = lambda: [region("first", both[:4]), region("second", both[4:])]
        raw.overruns[(1,)](both[:4], answer, table(both[4:]), 5)
    assert answer.tolist()[:2] == [4, 0]
    assert told(watch) == ["load of element 5 of `values`, which has 4"]


def test_an_address_may_be_reckoned_in_integers_and_read_back() -> None:
    values, answer = numbers(30), torch.zeros(2, dtype=torch.int32)
    with watching() as watch:
        raw.offsets_in_bytes[(1,)](table(values), answer, 8)
    assert (answer.tolist(), watch.outside) == ([32, 12], [])


def test_a_pointer_is_stored_as_the_address_that_it_is() -> None:
    values, answer = numbers(40), torch.zeros(1, dtype=torch.int64)
    with watching() as watch:
        raw.keeps_a_pointer[(1,)](table(values), answer)
    assert (answer.tolist(), watch.outside) == ([values.data_ptr() + 4], [])


@pytest.mark.parametrize("loads", [False, True])
def test_a_pointer_made_from_a_number_gains_no_reach(loads: bool) -> None:
    expected, other, answer = numbers(50), numbers(60), torch.zeros(2, dtype=torch.int32)
    with watching() as watch:
        raw.forges[(1,)](expected.data_ptr() + 4, table(other), answer, LOADS=loads)
    assert answer.tolist() == [0, 60 if loads else 0]
    address = f"{expected.data_ptr() + 4:#x}"
    assert told(watch) == [f"load at address {address}, which lies in no tensor of the call"]


def test_an_address_of_a_dead_tensor_lies_nowhere() -> None:
    answer = torch.zeros(4, dtype=torch.int32)
    with watching() as watch:
        raw.gathers[(1,)](torch.tensor([2**46 + 64], dtype=torch.int64), answer, 4, FROM=0)
    assert told(watch) == [f"load at address {2**46 + 64:#x}, which lies in no tensor of the call"]
    assert answer.tolist() == [-1] * 4


def test_an_address_between_the_guard_words_of_a_call_lies_nowhere() -> None:
    answer = torch.zeros(4, dtype=torch.int32)
    with watching() as watch, FencedAllocations(0xA5) as allocated:
        made = torch.empty(4, dtype=torch.int32)
        watch.given = allocated.regions
        address = torch.tensor([made.data_ptr() - GUARD_BYTES // 2])
        raw.gathers[(1,)](address, answer, 4, FROM=0)
    assert "which lies in no tensor of the call" in told(watch)[0]


def test_a_tensor_that_was_found_is_found_again_without_a_look_at_all_that_live(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values, answer = numbers(70), torch.zeros(4, dtype=torch.int32)
    with watching():
        raw.gathers[(1,)](table(values), answer, 4, FROM=0)
        monkeypatch.setattr(gc, "get_objects", lambda generation: [])
        raw.gathers[(1,)](table(values), answer, 4, FROM=0)
    assert answer.tolist() == [70, 71, 72, 73]


def test_poison_and_races_are_seen_behind_an_address() -> None:
    poisoned, answer = torch.full((4,), 0x5A5A5A5A, dtype=torch.int32), torch.zeros(4, dtype=torch.int32)
    with watching(races=True) as watch:
        watch.given = lambda: [region("lent", poisoned)]
        watch.follow(0x5A, lambda: [region("lent", poisoned)])
        raw.gathers[(1,)](table(poisoned), answer, 4, FROM=0)
        raw.lends[(2,)](table(poisoned))
    assert sorted(watch.garbage) == [("lent", i) for i in range(4)]
    assert [(race.tensor, race.index) for race in watch.races] == [("lent", 0)]


def test_annotated_arguments_are_as_wide_as_the_kernel_says() -> None:
    answer = torch.zeros(3, dtype=torch.int64)
    with watching(overflow=True) as watch:
        raw.multiplies[(1,)](answer, 65536, 65536, unsigned=65536, plain=65536)
    assert (answer.tolist(), watch.asserted) == ([2**32] * 3, [])
    with watching(overflow=True) as watch:
        raw.multiplies_by_default[(1,)](answer, 65536)
    assert (answer.tolist()[0], watch.asserted) == (2**32, [])


@pytest.mark.parametrize("kernel", [raw.multiplies_narrow, raw.multiplies_apart])
def test_what_is_not_annotated_wide_still_overflows(kernel: Any) -> None:
    arguments = (65536,) * (len(kernel.arg_names) - 1)
    with watching(overflow=True) as watch:
        kernel[(1,)](torch.zeros(1, dtype=torch.int64), *arguments)
    assert "int32 overflow detected for operation mul" in watch.asserted[0]


def test_a_large_number_is_wide_without_an_annotation() -> None:
    answer = torch.zeros(1, dtype=torch.int64)
    with watching(overflow=True) as watch:
        raw.multiplies_narrow[(1,)](answer, 3, 2**31)
    assert (answer.tolist(), watch.asserted) == ([3 * 2**31], [])


def test_a_number_that_its_annotation_does_not_hold_is_refused_as_a_launch_refuses_it() -> None:
    with watching(), pytest.raises(OverflowError):
        raw.multiplies_narrow[(1,)](torch.zeros(1, dtype=torch.int64), 2**31, 1)


def test_a_scalar_condition_in_a_mask_stays_boolean() -> None:
    values, answer, flag = numbers(5), torch.zeros(4, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    with watching() as watch:
        raw.mask_of_a_scalar[(1,)](values, answer, flag)
    assert (answer.tolist(), watch.outside) == ([6, 7, 1, 0], [])


def test_words_between_conditions_work_by_element_as_they_do_compiled() -> None:
    values, answer, flag = numbers(5), torch.zeros(21, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    with suppress(Exception):  # a kernel that ran before, with the words of Python, has them no more
        raw.mask_in_words[(1,)](values, answer, flag)
    answer.zero_()
    with watching() as watch:
        raw.mask_in_words[(1,)](values, answer, flag)
    masks = [0, 6, 7, 0], [1, 0, 0, 1], [1, 0, 0, 0], [0, 0, 1, 1], [1, 1, 0, 0]
    assert answer.tolist() == [*chain(*masks), 2]
    assert watch.outside == []


@pytest.mark.skipif(version("triton") < "3.9", reason="older interpreters take what no compiler does")
def test_a_mask_of_numbers_stays_refused_as_the_compiler_refuses_it() -> None:
    arguments = numbers(5), torch.zeros(4, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    with watching(), pytest.raises(Exception, match="mask has unsupported dtype"):
        raw.mask_of_a_number[(1,)](*arguments)


CASE = Case(Batch((Request(3, 2, (4, 1)), Request(5, 1, (7, 2), "decode")), 4), Layout(num_padding_tokens=1))


@pytest.mark.parametrize("function", [raw.slots_by_address, raw.slots_of_a_copy, raw.Mapper])
def test_a_table_that_is_known_by_its_address_is_accused_by_no_check(function: Any) -> None:
    promised = Domain(index_dtype=("int32",), captured=False)
    binding = binding_of(function, "slot_mapping", domain=promised)
    trial = Trial(binding, CASE, "cpu")
    assert {name: CHECKS[name](trial) for name in checks_for(binding)} == dict.fromkeys(checks_for(binding))
    verdict = search(binding, "cpu", Budget(examples=5))
    assert verdict.ok, verdict


def test_wrong_values_say_what_was_masked_off() -> None:
    binding = binding_of(raw.slots_of_nowhere, "slot_mapping", domain=Domain(index_dtype=("int32",)))
    trial = Trial(binding, CASE, "cpu")
    agrees, bounds = CHECKS["agrees"](trial), CHECKS["stays_in_bounds"](trial)
    assert agrees is not None
    assert bounds is not None
    assert "; 3 accesses outside every tensor were masked off, the first: load at address" in agrees.message
    assert agrees.message.endswith(f", which lies in no tensor of the call, at {_line('tl.load(entry')}")
    assert bounds.message == agrees.message.partition("the first: ")[2]


def _line(text: str) -> str:
    with open(raw.__file__) as file:
        return f"addressed.py:{next(i for i, line in enumerate(file, start=1) if text in line)}"


def test_the_probe_of_cumae_doctor_names_what_is_refused_of_a_kernel_without_a_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(interpreter, "_CASTS", ())
    with pytest.raises(RuntimeError, match=r"without a fault stored \[1, 1, 0, 4294967296\]: load "):
        probes.hooks()
    monkeypatch.undo()
    monkeypatch.setattr(hooked, "with_widths", lambda fn, args, kwargs: (args, kwargs))
    with pytest.raises(RuntimeError, match="int32 overflow detected"):
        probes.hooks()


@pytest.mark.skipif(version("triton") < "3.9", reason="older interpreters take masks of numbers")
def test_the_probe_of_cumae_doctor_fails_where_conditions_are_not_kept_boolean(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(interpreter, "_SPLATS", ())
    with pytest.raises(Exception, match="mask has unsupported dtype"):
        probes.hooks()

"""The hooks in the interpreter report a kernel's accesses by tensor, element and line."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from cumae.oracle import Batch, Case, Request
from cumae.properties.checks import CHECKS, Trial
from cumae.properties.interpreter import accesses
from cumae.properties.interpreter.hooks import watching
from cumae.properties.interpreter.region import Region
from cumae.properties.interpreter.strays import Access
from cumae.properties.interpreter.watch import Watch
from cumae.properties.operations.binding import binding_of
from cumae.properties.running import probes
from cumae.properties.running.bench import POISON
from cumae.properties.running.device import prepare
from cumae.properties.running.launches import noting_launches
from cumae.properties.tests.functions import wrong_in_memory as raw
from cumae.properties.tests.functions import wrong_kernels

pytestmark = pytest.mark.skipif(prepare("auto") == "cuda", reason="accesses are watched in the interpreter")
CASE = Case(Batch((Request(3, 2, (4, 1), "prefill"), Request(5, 1, (7, 2), "decode")), 4))


def watched(kernel: Any, *arguments: Any, programs: int = 3, overflow: bool = False) -> Watch:
    answer = torch.zeros(4, dtype=torch.int32)
    answer[1] = int.from_bytes(bytes([POISON] * 4), "little", signed=True)
    start = answer.data_ptr()
    with watching(races=True, overflow=overflow) as watch:
        watch.follow(POISON, lambda: [Region("answer", start, start + 16, 4)])
        kernel[(programs,)](answer, *arguments)
    return watch


def line_of(kernel: Any, text: str) -> str:
    first = kernel.fn.__code__.co_firstlineno
    with open(raw.__file__) as file:
        lines = file.readlines()
    number = next(i for i in range(first, len(lines)) if text in lines[i]) + 1
    return f"wrong_in_memory.py:{number}"


def test_two_values_stored_by_two_programs_are_a_race() -> None:
    (race,) = watched(raw.stores_its_number).races
    line = line_of(raw.stores_its_number, "tl.store")
    assert str(race) == f"`answer[2]` is stored by program 0 at {line} and stored by program 1 at {line}"


def test_one_value_stored_by_all_is_none() -> None:
    assert watched(raw.stores_one_value).races == []


def test_a_load_of_what_another_program_stores_is_a_race() -> None:
    race = watched(raw.reads_its_neighbour).races[0]
    stored, loaded = (line_of(raw.reads_its_neighbour, text) for text in ("tl.store", "tl.load"))
    assert str(race) == f"`answer[0]` is stored by program 0 at {stored} and loaded by program 1 at {loaded}"


def test_lanes_of_one_block_may_race_too() -> None:
    race = watched(raw.lanes_collide, programs=1).races[0]
    line = line_of(raw.lanes_collide, "tl.store")
    assert str(race) == f"`answer[0]` is stored with two values by one block at {line}"


def test_an_atomic_and_a_store_are_a_race() -> None:
    (race,) = watched(raw.clears_while_others_add).races
    assert race.what.startswith("is updated atomically by program 0")
    assert "stored by program 1" in race.what


def test_what_a_lock_puts_in_order_is_none_unless_its_atomics_are_relaxed() -> None:
    assert watched(raw.takes_a_lock, False).races == []
    (race,) = watched(raw.takes_a_lock, True).races
    assert (race.tensor, race.index) == ("answer", 0)
    released = line_of(raw.takes_a_lock, 'xchg(answer + 3, 0, sem="relaxed")')
    taken = line_of(raw.takes_a_lock, 'cas(answer + 3, 0, 1, sem="relaxed")')
    told = f"; the atomics at {released} and {taken} are relaxed and order nothing: acq_rel does"
    assert race.what.endswith(told)


def test_an_atomic_on_what_nobody_wrote_reads_garbage() -> None:
    watch = watched(raw.adds_to_garbage, programs=1)
    (garbage,) = watch.garbage.values()
    line = line_of(raw.adds_to_garbage, "tl.atomic_add")
    assert str(garbage) == f"`answer[1]` is read before anything was written there, at {line}"


@pytest.mark.parametrize(("back", "outside"), [(1, []), (2, ["load of element -2 of `answer`, which has 3"])])
def test_a_view_reaches_all_of_the_tensor_that_was_given_and_no_further(
    back: int, outside: list[str]
) -> None:
    answer = torch.zeros(4, dtype=torch.int32)
    start = answer.data_ptr()
    with watching() as watch:
        watch.given = lambda: [Region("answer", start, start + 16, 4)]
        raw.copies_from_before[(1,)](answer[1:], BACK=back)
    assert [str(access).partition(", at ")[0] for access in watch.outside] == outside


def test_an_address_of_no_tensor_is_not_told_by_the_nearest_one() -> None:
    near, far = (Access("store", "answer", element, 4, "mine.py:3") for element in (2**20, -(2**21)))
    assert str(near) == f"store of element {2**20} of `answer`, which has 4, at mine.py:3"
    assert str(far) == "store far from every tensor, at mine.py:3"
    large = Access("store", "answer", -(2**30), 2**31, "mine.py:3")
    assert str(large) == f"store of element -{2**30} of `answer`, which has {2**31}, at mine.py:3"
    assert "of `answer`" in str(replace(far, is_known=True))


def test_overflow_is_told_by_its_line_where_it_is_looked_for() -> None:
    assert watched(raw.overflows, 65536).asserted == []
    (told,) = watched(raw.overflows, 65536, programs=1, overflow=True).asserted
    assert told == f"int32 overflow detected for operation mul at {line_of(raw.overflows, 'tl.store')}"
    assert watched(raw.overflows, 32767, overflow=True).asserted == []


def test_assertions_of_the_kernel_are_live() -> None:
    (told,) = watched(raw.asserts, 3, programs=1).asserted
    assert told == f"bound is small at {line_of(raw.asserts, 'tl.device_assert')}"
    assert watched(raw.asserts, 2).asserted == []


def test_every_hook_is_called() -> None:
    """Fails when a newer Triton no longer calls a method that is hooked into."""
    probes.hooks()
    counts = watched(raw.takes_a_lock, False).counts
    assert counts == {"load": 3, "store": 3, "atomic": 3, "exchange": 3}
    assert watched(raw.asserts, 2).counts["assert"] == 3


@pytest.mark.parametrize("name", accesses.ACCESSES)
def test_the_probe_of_cumae_doctor_names_a_hook_that_sees_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = {other: place for other, place in accesses.ACCESSES.items() if other != name}
    kind = accesses.ACCESSES[name][0]
    monkeypatch.setattr(accesses, "ACCESSES", left)
    with pytest.raises(RuntimeError, match=f"the hooks miss planted faults: .*{kind}"):
        probes.hooks()


@pytest.mark.parametrize("context", [watching, noting_launches])
@pytest.mark.parametrize(
    ("owner", "name"),
    [
        ("InterpreterBuilder", "create_atomic_cas"),
        ("InterpreterBuilder", "create_assert"),
        ("InterpreterBuilder", "create_make_range"),
        ("InterpreterBuilder", "set_grid_idx"),
        ("GridExecutor", "_init_args_hst"),
        ("ReduceScanOpInterface", "apply"),
    ],
)
def test_a_triton_without_a_method_is_refused_by_name(
    owner: str, name: str, context: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from triton.runtime import interpreter

    lacking = type(owner, (), {n: m for n, m in vars(getattr(interpreter, owner)).items() if n != name})
    monkeypatch.setattr(interpreter, owner, lacking)
    rule = rf"triton = '[\d.]+', must have {owner}.{name} in its interpreter"
    with pytest.raises(ValueError, match=rule), context():
        pass


def test_a_finding_on_large_ids_names_what_overflowed() -> None:
    trial = Trial(binding_of(wrong_kernels.wraps, "slot_mapping"), CASE, "cpu")
    finding = CHECKS["survives_large_ids"](trial)
    assert finding is not None
    assert "; int32 overflow detected for operation mul at wrong_kernels.py:" in finding.message


def test_a_change_with_the_order_of_programs_names_the_writer() -> None:
    binding = binding_of(wrong_kernels.takes_a_number, "position_ids")
    finding = CHECKS["is_deterministic"](Trial(binding, CASE, "cpu"))
    assert finding is not None
    assert "when programs ran in another order; last written by program" in finding.message
    assert "wrong_kernels.py:" in finding.message


@pytest.mark.parametrize(
    ("region", "indices"),
    [
        (Region("a", 100, 120, 4), [0, 1, 2]),
        (Region("a", 100, 140, 4, 3), [0, 0, 0, 1]),
        (Region("a", 100, 180, 4, 5, 3), [0, 1, 2, 2, 2, 3]),
    ],
    ids=["dense", "with a step", "rows of three with gaps"],
)
def test_an_address_is_told_as_the_element_there(region: Region, indices: list[int]) -> None:
    assert [region.index(region.start + 4 * i) for i in range(len(indices))] == indices
    assert all(region.index(region.address(i)) == i for i in indices)

"""A kernel on one case, and the variants of the case that checks need."""

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any
from weakref import ref

import numpy as np

from cumae.oracle import GARBAGE_KINDS, INDEX_DTYPES, Case, GarbageKind, IndexDtype
from cumae.properties.interpreter.threads import Threads
from cumae.properties.interpreter.turns import Turns
from cumae.properties.operations import FREE, UNORDERED, Expected
from cumae.properties.operations.binding import Binding
from cumae.properties.operations.strides import deviation
from cumae.properties.running.bench import COMPLEMENT, POISON, Bench
from cumae.properties.running.device import Device
from cumae.properties.running.observation import KernelRaised, Observation
from cumae.properties.running.together import calls_together, observe_together
from cumae.properties.running.variants import enlarged_cases, how_moved, not_moved_by, quiet_case, raised_by

Begins = Callable[[Case | None, str, str], None]
ORDER_SEED = 1
GARBAGE_HELD: dict[GarbageKind, str] = {
    "minus_one": "-1 garbage, of floats NaN",
    "zero": "zero garbage",
    "plausible": "plausible garbage",
    "huge": "huge garbage",
}
"""Garbage as a report tells it."""


class Trial:
    """One case under check. Its quiet variant has dense tensors and the dialect's usual don't-care fill.

    ``saw_nothing``: whether the last check could compare nothing on this case. ``running``: the other
    case that the function was called on last, None for this one; ``because``: how that call differs from
    a plain one on this case, in words; ``left_out_by``: the promises that leave that call out, as text;
    ``raised``: whether it raised. ``begins`` gets the first three before each call. ``goes_on``: whether
    there is time for more calls; ``seconds_left``: how much, ``inf`` where it is not limited.
    ``schedule``: the turns in which programs ran when the case failed, as
    text. ``note``: what a check has seen that makes no difference to an output. ``number``: of the case in
    its search; it chooses among variants of which one is tried. ``is_quick``: whether calls are brief, so
    that several may be made before the time is checked. ``shown``: the case that the last check's finding
    is about, if it is not the trial's own. ``doubted``: other cases on which the function is wrong too if
    it keeps no answers. ``shares``: whether programs or threads of a
    launch were seen to share elements.
    """

    def __init__(
        self,
        binding: Binding,
        case: Case,
        device: Device,
        begins: Begins | None = None,
        goes_on: Callable[[], bool] = lambda: True,
        schedule: str = "",
        number: int = 0,
        is_quick: bool = False,
        seconds_left: Callable[[], float] = lambda: inf,
    ) -> None:
        self.seconds_left = seconds_left
        self.binding = binding
        self.number = number
        self.is_quick = is_quick
        self.shown: Case | None = None
        self.doubted: tuple[Case, ...] = ()
        self.case = case
        self.device = device
        self.running: Case | None = None
        self.because = ""
        self.left_out_by = ""
        self.raised = False
        self._begins = begins
        self._goes_on = goes_on
        self.schedule = schedule
        self.note = ""
        self.shares = False
        narrow = binding.domain.among("index_dtype", INDEX_DTYPES)[0]
        quiet = quiet_case(case, binding.dialect.quiet_garbage, index_dtype=narrow)
        self.quiet = Bench(binding, quiet, device, begins=self._telling(None, ""))
        self.saw_nothing = False
        self._expected_benches: dict[Case, Bench] = {}
        self._first: Observation | None = None
        self._second: Observation | None = None
        self._complement: Observation | None = None
        self._again: dict[int | None, Observation] = {}

    def bench(self, case: Case, because: str = "", *, is_shown: bool = True, is_alike: bool = False) -> Bench:
        """Return a bench for a variant of the case. ``because``: how it differs, in words.

        Without ``is_shown``, an error of a call is reported on the trial's case, as wrong values are.
        ``is_alike``: whether the case differs from the quiet one in strides, garbage and widths alone.
        """
        if self._expected_benches and (known := self._expected_benches.get(case)) is not None:
            return known
        own = not is_shown or case in (self.case, self.quiet.case)
        other = None if own or self.binding.why_not(case) is not None else case
        like = self.quiet if is_alike or case is self.quiet.case else None
        return Bench(self.binding, case, self.device, begins=self._telling(other, because), like=like)

    def is_over(self) -> bool:
        """Return whether the time of the case is up; if so, the check counts as having compared nothing."""
        over = not self._goes_on()
        self.saw_nothing |= over
        return over

    def _telling(self, other: Case | None, because: str, left_out_by: str = "") -> Callable[[], None]:
        """Return what a bench calls before a call. It does not hold the trial, whose memory is large.

        In a cycle of trial and bench, that memory would stay until garbage is searched for.
        """
        weakly = ref(self)

        def begins() -> None:
            trial = weakly()
            if trial is not None:
                trial._begin(other, because, left_out_by)

        return begins

    def _begin(self, other: Case | None, because: str, left_out_by: str) -> None:
        self.running, self.because, self.left_out_by = other, because, left_out_by
        if self._begins is not None:
            self._begins(other, because, left_out_by)

    @property
    def first(self) -> Observation:
        """The first call, on poisoned outputs."""
        if self._first is None:
            self._first = self.quiet.observe(POISON)
        return self._first

    @property
    def second(self) -> Observation:
        """A second call, watched for races: complementary poison, and in the interpreter another order.

        A function that need not be deterministic, or that raises in another order, keeps its own.
        """
        if self._second is None and self.device == "cuda":
            self._second = self.complement
        elif self._second is None:
            try:
                may_change = "is_deterministic" not in self.binding.domain.all_but
                order_seed = ORDER_SEED if may_change else None
                self._second = self.quiet.observe(COMPLEMENT, order_seed, races=True)
            except KernelRaised:
                self._second = self.complement
        return self._second

    @property
    def complement(self) -> Observation:
        """A call like the first one, on outputs with the complementary poison."""
        if self._complement is None:
            self._complement = self.quiet.observe(COMPLEMENT)
        return self._complement

    @property
    def expected(self) -> dict[str, Expected]:
        """The oracle's values, asked for after the kernel ran."""
        assert self._first is not None, "the kernel runs before the oracle"
        return self.quiet.expected()

    def again(self, order_seed: int | None = None) -> Observation:
        """Return another call on the quiet case, watched for races; a seed permutes the program order."""
        if order_seed not in self._again:
            self._again[order_seed] = self.quiet.observe(POISON, order_seed, races=True)
        return self._again[order_seed]

    def in_turns(self, turns: Turns) -> Observation:
        """Call on the quiet case with the programs of each launch side by side."""
        return self.quiet.observe(POISON, turns=turns)

    def with_threads(self, threads: Threads) -> Observation:
        """Call on the quiet case with threads that are slower or faster than others of their program."""
        return self.quiet.observe(POISON, threads=threads)

    @property
    def calls_together(self) -> bool:
        """Whether calls on several cases are made together."""
        return self.is_quick and calls_together(self.binding, self.device)

    def call_together(self, benches: Sequence[Bench]) -> None:
        """Make the first call of several benches now."""
        found = observe_together([(bench, POISON) for bench in benches], lambda i: benches[i].begin())
        last = max(found, default=-1)
        error = found.get(last)
        if isinstance(error, KernelRaised) and len(found) <= last:
            raise error  # the device is lost
        for number, seen in found.items():
            benches[number].foreseen[POISON] = seen

    def expect(self, bench: Bench) -> None:
        """Keep a bench: `bench` returns it when asked for one for its case."""
        self._expected_benches[bench.case] = bench

    @property
    def garbage(self) -> GarbageKind:
        """The don't-care fill of the case, or another one if it is the quiet one."""
        kinds = [kind for kind in GARBAGE_KINDS if kind != self.binding.dialect.quiet_garbage]
        drawn = self.case.layout.garbage
        return drawn if drawn in kinds else kinds[self.case.num_tokens_padded % len(kinds)]

    def with_garbage(self, kind: GarbageKind) -> Bench:
        """Return a bench for the quiet case with another don't-care fill."""
        case = self.quiet.case.laid_out(garbage=kind)
        because = f"when unused entries held {GARBAGE_HELD[kind]}"
        return self.bench(case, because, is_alike=True)

    @property
    def index_dtypes(self) -> Sequence[IndexDtype]:
        """The promised widths of lengths, rows and ids that the quiet case does not have."""
        return self.binding.domain.among("index_dtype", INDEX_DTYPES)[1:]

    def with_indices(self, dtype: IndexDtype) -> Bench:
        """Return a bench for the quiet case with other widths of lengths, rows and ids."""
        case = self.quiet.case.laid_out(index_dtype=dtype)
        return self.bench(case, f"when lengths, rows and ids were {dtype}", is_alike=True)

    def strided(self, strides: Mapping[str, Any] | None = None) -> Bench:
        """Return a bench for the case with these strides; by default its own, or one that is not dense."""
        if strides is None:
            strides = deviation(self.binding, self.case, self.number)
        strided = self.quiet.case.laid_out(**strides)
        return self.bench(strided, "when tensors are strided views", is_alike=True)

    def as_strided(self, strided: Bench) -> Case:
        """Return the case with the strides of a bench."""
        return self.case.laid_out(**strided.case.layout.strides)

    def enlarged(self) -> list[tuple[Bench, int]]:
        """Return benches for the case at offsets beyond 2^31 elements, and the number added to its ids.

        If a function only writes into caches, no more than the blocks of the case are read back.
        """
        benches = []
        forms = [self.binding.forms[name] for name in (*self.binding.outputs, *self.binding.returned)]
        writes_caches = all(form.is_in_place and form.is_rows for form in forms)
        for large in enlarged_cases(self.binding, self.quiet.case):
            by = raised_by(self.quiet.case, large)
            promises = not_moved_by(self.binding, self.quiet.case, large)
            moved = self.quiet if by and writes_caches else None
            begins = self._telling(None, how_moved(self.quiet.case, large), promises)
            benches.append((Bench(self.binding, large, self.device, begins=begins, moved=moved), by))
        return benches

    def live(self, name: str) -> np.ndarray:
        """Return which elements of an output must not depend on previous memory contents.

        These are all specified elements; in memory that is not poisoned here, the written ones. Elements
        in any order are excluded.
        """
        expected = self.expected[name]
        theirs = name in self.binding.returned or self.binding.forms[name].is_in_place
        state = expected.state
        return np.asarray(expected.is_repeatable if theirs else (state != FREE) & (state != UNORDERED))

"""A kernel on one case in the variants that checks need, each observed once."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from cumae.oracle import INDEX_DTYPES, Case, GarbageKind
from cumae.properties.operations import FREE, UNORDERED, Expected
from cumae.properties.operations.binding import Binding
from cumae.properties.operations.enlarged import with_small_slots, without_empty
from cumae.properties.running.bench import COMPLEMENT, POISON, Bench
from cumae.properties.running.device import Device
from cumae.properties.running.observation import Observation

Begins = Callable[[Case | None, str], None]


class Trial:
    """One case on trial. What a check is not about is quiet: dense tensors, this engine's usual garbage.

    ``saw_nothing``: whether the last check found nothing in the case that it could look at. ``running``:
    the other case that the function was called on last, None for this one; ``because``: in words, how that
    call differs from a plain one on this case; ``raised``: whether it raised. ``begins`` gets both before
    each call. ``goes_on``: whether there is time for more calls.
    """

    def __init__(
        self,
        binding: Binding,
        case: Case,
        device: Device,
        begins: Begins | None = None,
        goes_on: Callable[[], bool] = lambda: True,
    ) -> None:
        self.binding = binding
        self.case = case
        self.device = device
        self.running: Case | None = None
        self.because = ""
        self.raised = False
        self._begins = begins
        self._goes_on = goes_on
        quiet = quiet_case(case, binding.dialect.quiet_garbage)
        narrow = replace(quiet.layout, index_dtype=binding.domain.among("index_dtype", INDEX_DTYPES)[0])
        quiet = replace(quiet, layout=narrow)
        self.quiet = Bench(binding, quiet, device, begins=lambda: self._begin(None, ""))
        self.saw_nothing = False
        self._expected: dict[str, Expected] | None = None
        self._first: Observation | None = None
        self._second: Observation | None = None

    def bench(self, case: Case, because: str = "", *, is_shown: bool = True) -> Bench:
        """Return a bench for a variant of the case. ``because``: how it differs, in words.

        Without ``is_shown`` a call that raises is told of the case of the trial, as wrong values are.
        """
        own = not is_shown or case in (self.case, self.quiet.case)
        other = None if own or self.binding.why_not(case) is not None else case
        return Bench(self.binding, case, self.device, begins=lambda: self._begin(other, because))

    def is_over(self) -> bool:
        """Whether the time of the case is up, so that a check that has found nothing yet compares nothing."""
        over = not self._goes_on()
        self.saw_nothing |= over
        return over

    def _begin(self, other: Case | None, because: str) -> None:
        self.running, self.because = other, because
        if self._begins is not None:
            self._begins(other, because)

    @property
    def first(self) -> Observation:
        """The first call, over poison."""
        if self._first is None:
            self._first = self.quiet.observe(POISON)
        return self._first

    @property
    def second(self) -> Observation:
        """A second call, over the complementary poison."""
        if self._second is None:
            self._second = self.quiet.observe(COMPLEMENT)
        return self._second

    @property
    def expected(self) -> dict[str, Expected]:
        """What the oracle says; it is asked after the kernel ran."""
        if self._expected is None:
            assert self._first is not None, "the kernel runs before the oracle"
            self._expected = self.quiet.expected()
        return self._expected

    def again(self, order_seed: int | None = None) -> Observation:
        """Call once more on the same case, looking for races, in another order if a seed is given."""
        return self.quiet.observe(POISON, order_seed, races=True)

    def with_garbage(self, kind: GarbageKind) -> Observation:
        """Call on the quiet case with other garbage."""
        case = replace(self.quiet.case, layout=replace(self.quiet.case.layout, garbage=kind))
        return self.bench(case, f"when unused entries held {kind.replace('_', ' ')} garbage").observe(POISON)

    def strided(self) -> Bench:
        """Return a bench for the case with its own strides, or with gaps everywhere where it has none."""
        drawn, layout = self.case.layout, self.quiet.case.layout
        gaps: dict[str, Any] = {
            "table_row_gap": drawn.table_row_gap or 3,
            "table_column_step": max(drawn.table_column_step, 2),
            "cache_row_gap": drawn.cache_row_gap or 8,
            "key_row_gap": drawn.key_row_gap or 8,
        }
        strided = replace(self.quiet.case, layout=replace(layout, **gaps))
        return self.bench(strided, "when tables and rows are strided views")

    def enlarged(self) -> list[tuple[Bench, int]]:
        """Return benches for the case at addresses beyond 2^31 elements, and what was added to its ids.

        Slots go as far as they are promised. Only a function that promises no strides is asked about
        thousands of requests: gaps show the same.
        """
        enlarge, domain, case = self.binding.operation.enlarge, self.binding.domain, self.quiet.case
        benches = []
        for large in enlarge(case) if enlarge is not None else ():
            if domain.strided and len(large.batch.requests) > len(case.batch.requests):
                continue
            large = large if domain.large_slots else with_small_slots(large)
            large = large if domain.empty_requests else without_empty(large)
            raised_by = _raised_by(case, large)
            because = f"when {raised_by} is added to every block id" if raised_by else "at offsets past 2^31"
            benches.append((self.bench(large, because, is_shown=False), raised_by))
        return benches

    def live(self, name: str) -> np.ndarray:
        """Return which elements of an output are the same whatever memory held before.

        All that are specified; where the memory is not poisoned here, those that are written. Of neither kind
        are elements in any order.
        """
        expected = self.expected[name]
        theirs = name in self.binding.returned or self.binding.forms[name].is_in_place
        return np.asarray(expected.is_repeatable if theirs else ~np.isin(expected.state, (FREE, UNORDERED)))


def _raised_by(case: Case, enlarged: Case) -> int:
    """Return how much larger the block ids of the enlarged case are; others may come before its requests."""
    pairs = zip(case.batch.requests[::-1], enlarged.batch.requests[::-1], strict=False)
    steps = (b - a for one, other in pairs for a, b in zip(one.block_ids, other.block_ids, strict=True))
    return max(steps, default=0)


def quiet_case(case: Case, garbage: GarbageKind) -> Case:
    """Return the case with dense tensors and the given garbage."""
    layout = replace(
        case.layout,
        table_row_gap=0,
        table_column_step=1,
        cache_row_gap=0,
        key_row_gap=0,
        garbage=garbage,
    )
    return replace(case, layout=layout)

"""A kernel on one case in the variants that checks need, each observed once."""

from dataclasses import replace
from typing import Any

import numpy as np

from cumae.oracle import Case, GarbageKind
from cumae.properties.operations import FREE, UNORDERED, Expected
from cumae.properties.operations.enlarged import with_small_slots
from cumae.properties.running.binding import Binding
from cumae.properties.running.device import Device
from cumae.properties.running.observation import Observation
from cumae.properties.running.observe import COMPLEMENT, POISON, Bench


class Trial:
    """One case on trial. What a check is not about is quiet: dense tensors, this engine's usual garbage.

    ``saw_nothing``: whether the last check found nothing in the case that it could look at.
    """

    def __init__(self, binding: Binding, case: Case, device: Device) -> None:
        self.binding = binding
        self.case = case
        self.device = device
        quiet = quiet_case(case, binding.dialect.quiet_garbage)
        narrow = replace(quiet.layout, index_dtype=binding.domain.index_dtypes[0])
        self.quiet = self.bench(replace(quiet, layout=narrow))
        self.saw_nothing = False
        self._expected: dict[str, Expected] | None = None
        self._first: Observation | None = None
        self._second: Observation | None = None

    def bench(self, case: Case) -> Bench:
        """Return a bench for a variant of the case."""
        return Bench(self.binding, case, self.device)

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
        case = self.quiet.case
        return self.bench(replace(case, layout=replace(case.layout, garbage=kind))).observe(POISON)

    def strided(self) -> Bench:
        """Return a bench for the case with its own strides, or with gaps everywhere where it has none."""
        drawn, layout = self.case.layout, self.quiet.case.layout
        gaps: dict[str, Any] = {
            "table_row_gap": drawn.table_row_gap or 3,
            "table_column_step": max(drawn.table_column_step, 2),
            "cache_row_gap": drawn.cache_row_gap or 8,
            "key_row_gap": drawn.key_row_gap or 8,
        }
        return self.bench(replace(self.quiet.case, layout=replace(layout, **gaps)))

    def enlarged(self) -> list[Bench]:
        """Return benches for the case at addresses beyond 2^31 elements, or as far as slots are promised.

        Only a function that promises no strides is asked about thousands of requests: gaps show the same.
        """
        operation, domain = self.binding.operation, self.binding.domain
        cases = [] if operation.enlarge is None else operation.enlarge(self.quiet.case)
        few = len(self.quiet.case.batch.requests)
        kept = [case for case in cases if not domain.strided or len(case.batch.requests) <= few]
        return [self.bench(case if domain.large_slots else with_small_slots(case)) for case in kept]

    def live(self, name: str) -> np.ndarray:
        """Return which elements of an output are the same whatever memory held before.

        All that are specified; where the memory is not poisoned here, those that are written. Of neither kind
        are elements in any order.
        """
        expected = self.expected[name]
        theirs = name in self.binding.returned or self.binding.is_in_place(name)
        return np.asarray(expected.is_repeatable if theirs else ~np.isin(expected.state, (FREE, UNORDERED)))


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

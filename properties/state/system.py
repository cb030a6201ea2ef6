"""A function under test over the steps of an engine, in persistent buffers that are compared whole."""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from cumae.oracle import Case
from cumae.properties.comparing.compare import wrong_values
from cumae.properties.comparing.difference import difference
from cumae.properties.comparing.masks import Mask, elements
from cumae.properties.interpreter.hooks import watching
from cumae.properties.operations import FREE, KEEP, VALUE, Expected
from cumae.properties.operations.binding import Binding
from cumae.properties.results.verdict import Finding
from cumae.properties.running.allocations import FencedAllocations
from cumae.properties.running.bench import POISON, Bench
from cumae.properties.running.call import Call
from cumae.properties.running.device import Device, interpreting
from cumae.properties.running.observation import KernelRaised, Observation
from cumae.properties.running.returned import returned_by
from cumae.properties.running.words import Words

ROOM_BYTES = 2**16
TURNS = 3
"""Before one of so many steps, another instance is called: an engine has one for each group of layers."""
NONE = -1
REPEATED = "stale: the answer of the step before"
EARLIER = "an earlier step: a new instance is right on this one"
STALE = "it still holds its earlier value: not written in this step, or an earlier answer written again"


class System:
    """One function, or one instance of a class, called at every step over buffers that never move.

    An element that a step must not touch keeps the value of the steps before, or its initial one. Before
    every third step another instance of a class is called on an earlier step, which must not change the
    answers of the first. ``check``: the name under which findings are reported. ``takes_turns``: whether
    there is another instance.
    """

    check = "forgets_history"
    takes_turns = True

    def __init__(self, binding: Binding, device: Device) -> None:
        self.binding = binding
        self.device = device
        self.previous: Case | None = None
        self.call: Call | None = None
        self.allocated = FencedAllocations(POISON)
        self.function: Any = None
        self._made_with: dict[str, Any] = {}
        self._earlier: list[Case] = []
        self._another: Any = None
        self._addresses: dict[str, int] = {}
        self._answered: Mapping[str, Words] = {}
        self._kept: dict[str, tuple[Words, Mask]] = {}

    def fits(self, case: Case) -> bool:
        """Whether a step has the same engine numbers as the step that an instance was made for."""
        bench = Bench(self.binding, case, self.device)
        numbers = {name: bench.held(name) for name in self.binding.constructor if name != "device"}
        self._made_with = self._made_with or numbers
        return numbers == self._made_with

    def step(self, case: Case) -> Finding | None:
        """Run one step and return its finding, if any. Raises ``KernelRaised`` if the function raises."""
        told = ""
        only_returns = not self.binding.keeps_state and not self.binding.outputs
        if only_returns or "ignores_garbage" in self.binding.domain.all_but:
            # What it returns for padding is a matter of other checks, which say what it may hold.
            case = case.laid_out(garbage=self.binding.dialect.quiet_garbage)
        if self.binding.keeps_state and self.takes_turns:
            if (count := len(self._earlier)) % TURNS == TURNS - 1:
                self._call_another(self._earlier[-2])
                told = f"; before step {count + 1}, another instance was called on step {count - 1}"
            self._earlier.append(case)
        bench = Bench(self.binding, case, self.device, self.previous)
        refused = False
        with watching() if interpreting() else nullcontext() as watch:
            if self.function is None:
                with self.allocated:
                    self.function = bench.made()
            call = bench.call(POISON, self.call, function=self.function, room=ROOM_BYTES)
            if watch is not None:
                watch.given = lambda: (*call.given(), *self.allocated.regions())
            try:
                answer = self.launch(call)
            except KernelRaised as error:
                refused = _may_refuse(case, error)
                if not refused:
                    raise
        self.call, self.previous = call, case
        if refused:
            self.previous = case.laid_out(host_lens=False)
            return None
        call.collect()
        seen = bench.seen(call, answer, self.allocated, watch)
        found = self.judge(seen, bench, answer)
        self.allocated.free()
        if found is not None and told and not self._fails_alone(found):
            found = replace(found, message=found.message + told)
        return found

    def _fails_alone(self, found: Finding) -> bool:
        """Whether the steps so far end in the same finding if no other instance is called between them."""
        alone = System(self.binding, self.device)
        alone.takes_turns = False
        try:
            again = [alone.step(case) for case in self._earlier]
        except KernelRaised:
            return False
        return again[-1] is not None and again[-1].message == found.message

    def _call_another(self, case: Case) -> None:
        """Call another instance on a step, in buffers of its own. Its answer is not compared."""
        bench = Bench(self.binding, case, self.device)
        if self._another is None:
            self._another = bench.made()
        try:
            bench.call(POISON, function=self._another, room=ROOM_BYTES).run()
        except KernelRaised as error:
            if not _may_refuse(case, error):
                told, how = f"{error}, in a call of another instance", (error.waits, error.gives_up)
                raise KernelRaised(told, error.traceback, waits=how[0], gives_up=how[1]) from error

    def launch(self, call: Call) -> Any:
        """Call the function once."""
        with self.allocated:
            return call.run()

    def judge(self, seen: Observation, bench: Bench, answer: Any) -> Finding | None:
        """Return the first difference between the memory and its expected content after a step."""
        expected = bench.expected()
        rule = "a kernel writes only its outputs, and reads and writes only inside its tensors"
        excused = "stays_in_bounds" in self.binding.domain.all_but
        if seen.watch is not None and seen.watch.outside and not excused:
            return Finding(self.check, str(seen.watch.outside[0]), rule, count=len(seen.watch.outside))
        if seen.damage and not excused:
            return Finding(self.check, seen.damage[0], rule, count=len(seen.damage))
        moved = self._moved(answer)
        if moved:
            return Finding(self.check, moved, "a persistent buffer keeps its address")
        whole = replace(seen, opaque=frozenset(seen.outputs))
        found = wrong_values(self.check, self.binding, whole, expected, bench.case)
        if found is not None and self._is_stale(found, seen):
            found = replace(found, cause=STALE)
        elif found is not None and self._is_answer_before(found, seen, bench):
            found = replace(found, cause=REPEATED)
        elif found is not None and found.cause and self._is_right_anew(bench):
            found = replace(found, cause=EARLIER)  # of the numbers alone, another fault is as likely
        self._answered = seen.outputs
        return found or self._wrongly_written(seen, expected)

    def _is_stale(self, found: Finding, seen: Observation) -> bool:
        """Whether the first wrong element lies in a given buffer and holds what it held before this step."""
        if found.output not in self.binding.outputs or not found.wrong:
            return False
        index = found.index * self.binding.forms[found.output].per_item
        return bool(np.all(seen.outputs[found.output][index] == seen.before[found.output][index]))

    def _is_answer_before(self, found: Finding, seen: Observation, bench: Bench) -> bool:
        """Whether the wrong output was returned as in the step before, and a new instance is right."""
        if found.output not in self.binding.returned or found.output not in self._answered:
            return False
        answer = seen.outputs[found.output]
        if not np.array_equal(self._answered[found.output], answer):
            return False
        places = [place * self.binding.forms[found.output].per_item for place in found.wrong]
        if np.all(answer[places] == NONE):  # both answers may hold it for another reason
            return False
        return not self.binding.keeps_state or self._is_right_anew(bench)

    def _is_right_anew(self, bench: Bench) -> bool:
        """Whether a new instance is right on the step of a bench, which is not the first one."""
        if not self.binding.keeps_state or len(self._earlier) < 2:
            return False
        try:
            seen = Bench(self.binding, bench.case, self.device).observe()
        except KernelRaised:
            return False
        return wrong_values(self.check, self.binding, seen, bench.expected(), bench.case) is None

    def _moved(self, answer: Any) -> str:
        """Return a description of the first instance buffer whose address changed since the step before.

        Only calls that may be captured in a graph promise stable addresses for their answers.
        """
        if not self.binding.keeps_state or not self.binding.domain.captured:
            return ""
        for name, value in returned_by(self.binding, answer).items():
            if isinstance(value, torch.Tensor) and value.numel():
                if self._addresses.setdefault(name, value.data_ptr()) != value.data_ptr():
                    told = f"`{name}` was returned at another address than in the step before"
                    return (
                        f"{told}; a captured graph needs the same one, `Domain(captured=False)` promises none"
                    )
        return ""

    def _wrongly_written(self, seen: Observation, expected: dict[str, Expected]) -> Finding | None:
        """Return the first element that changed but must not, and remember the current content."""
        for name, words in seen.outputs.items():
            want = expected[name]
            before, known = seen.before[name], np.ones(len(want.state), dtype=bool)
            if name in self.binding.returned:
                starts = self.binding.forms[name].starts
                if starts is None:
                    continue
                start = (np.full_like(words, starts), known)
                before, known = self._kept.get(name, start)
            wrong = elements(words != before) & (want.state == KEEP) & known
            if wrong.any():
                what = "changed but must keep its value"
                return difference(self.check, self.binding, name, wrong, before, words, what)
            self._kept[name] = (words, (want.state == VALUE) | ((want.state != FREE) & known))
        return None


def _may_refuse(case: Case, error: KernelRaised) -> bool:
    """Whether a function may raise what it raised: without host lengths a cache may, but must not guess."""
    return not case.layout.host_lens and isinstance(error.__cause__, ValueError)

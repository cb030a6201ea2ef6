"""Two launches give the same bits; in the interpreter also in another program order, and without races."""

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from cumae.properties.comparing.masks import unwritten
from cumae.properties.comparing.repeated import changed_since
from cumae.properties.interpreter.races import Race
from cumae.properties.interpreter.watch import Watch
from cumae.properties.operations import FREE
from cumae.properties.results.verdict import Finding
from cumae.properties.running.bench import POISON
from cumae.properties.running.observation import KernelRaised, Observation
from cumae.properties.running.trial import ORDER_SEED, Trial

EACH, MOST_LINES = 4, 3
"""Trials of which one fills undefined lanes, and lines that its note names."""


def is_deterministic(trial: Trial) -> Finding | None:
    """Call a second time, then in the interpreter with the programs of each launch in another order.

    Neither is needed if the trial's second call, in another order and on other poison, wrote the same bits.
    A note tells of an answer that follows from undefined lanes: on the GPUs of today they hold 0, too.
    """
    found = _changed(trial)
    if found is None and trial.number % EACH == 0 and (where := _undefined(trial)):
        trial.note = f"its answer changes with undefined lanes, of masked loads without `other`: {where}"
    return found


def _undefined(trial: Trial) -> str:
    """Return the lines of loads whose undefined lanes change the answer or raise, empty if none do."""
    watch = trial.first.watch
    if watch is None or not watch.undefined or trial.is_over() or not _change(trial, watch.undefined):
        return ""
    lines = sorted(watch.undefined)
    telling = [line for line in lines if _change(trial, {line})] if len(lines) > 1 else lines
    return ", ".join((telling or lines)[:MOST_LINES])


def _change(trial: Trial, lines: Collection[str]) -> bool:
    try:
        filled = trial.quiet.observe(POISON, filled=lines)
    except KernelRaised:
        return True
    return changed_since("is_deterministic", trial, trial.first, filled, "") is not None


def _changed(trial: Trial) -> Finding | None:
    base = trial.first
    if _is_same(trial, base, trial.second):
        return None
    again = trial.again()
    races = _races(trial, again)
    if races:
        rule = "a kernel's output does not depend on the order of its programs"
        return Finding("is_deterministic", str(races[0]), rule, count=len(races))
    found = changed_since("is_deterministic", trial, base, again, "in a second launch")
    if found is None:
        # A function that is wrong each second time was right in the call before this one.
        again = trial.quiet.observe(POISON)
        found = changed_since("is_deterministic", trial, base, again, "in a second launch")
    if found is not None or base.watch is None or trial.is_over():
        return found
    watch = trial.second.watch
    others = _ordered_anew(base.watch.most_programs, watch)
    if not others:
        return found
    other = trial.again(ORDER_SEED)
    because = f"when {others} {'ran' if others == 'programs' else 'came'} in another order"
    found = changed_since("is_deterministic", trial, base, other, because)
    if found is None or found.index < 0 or other.watch is None:
        return found
    writer = other.watch.writer_of(found.output, found.index)
    return replace(found, message=f"{found.message}; {writer}") if writer else found


def _ordered_anew(num_programs: int, watch: Watch | None) -> str:
    """Return in words what came in another order in the second call."""
    told = ["programs"] if num_programs > 1 else []
    if watch is not None and watch.lanes_reordered:
        told.append("lanes of an atomic")
    if watch is not None and watch.indices_turned:
        told.append("writes to one index")
    return " and ".join(told)


def _is_same(trial: Trial, first: Observation, second: Observation) -> bool:
    """Return whether two calls wrote the same elements with the same bits, without races."""
    if first.outputs.keys() != second.outputs.keys() or _races(trial, second):
        return False
    if second.watch is not None and not second.watch.seeks_races:
        return False
    for name, words in first.outputs.items():
        if words.shape != second.outputs[name].shape:
            return False
        kept = unwritten(first, name) & unwritten(second, name)
        if not np.all(kept | (words == second.outputs[name])):
            return False
    return True


def _races(trial: Trial, seen: Observation) -> list[Race]:
    """Return the races seen, except those at don't-care elements."""
    races = seen.watch.races if seen.watch is not None else []
    return [
        race
        for race in races
        if race.tensor not in trial.expected
        or race.index >= len(trial.expected[race.tensor].state)
        or trial.expected[race.tensor].state[race.index] != FREE
    ]

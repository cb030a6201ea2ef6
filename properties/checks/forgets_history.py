"""A call in persistent buffers, after another case, equals a fresh call."""

from contextlib import nullcontext
from dataclasses import replace

import numpy as np

from cumae.oracle import Case
from cumae.properties.cases.draws import edited, permuted, renamed
from cumae.properties.comparing.compare import changed
from cumae.properties.comparing.difference import with_strays
from cumae.properties.comparing.judged import wrong_besides
from cumae.properties.comparing.masks import Mask, unwritten
from cumae.properties.interpreter.hooks import watching
from cumae.properties.results.verdict import Finding
from cumae.properties.running.bench import POISON
from cumae.properties.running.device import interpreting
from cumae.properties.running.trial import Trial


def forgets_history(trial: Trial) -> Finding | None:
    """Call on a larger case and on one of the same shapes, each followed by this case in the same buffers."""
    base = trial.first
    live = {
        name: trial.expected[name].is_repeatable & _written(trial, name) for name in trial.binding.outputs
    }
    if not live:
        return None
    for case, what in _earlier(trial.quiet.case):
        if trial.binding.why_not(case) is not None:
            continue
        if trial.is_over():
            return None
        # Watch this call too: a stray access in the other case must not end the process.
        because = f"after a call on {what}"
        with watching() if interpreting() else nullcontext() as watch:
            before = trial.bench(case, f"in a call on {what}").call(POISON)
            if watch is not None:
                watch.given = before.given
            before.run()
            call = trial.bench(trial.quiet.case, because).call(POISON, earlier=before)
            if watch is not None:
                watch.given = call.given
            call.run()
        call.collect()
        words = {buffer.name: buffer.words() for buffer in call.outputs}
        seen = replace(base, outputs=words)
        told = replace(base, outputs={name: base.outputs[name] for name in words})
        found = changed("forgets_history", trial.binding, told, seen, live, because) or wrong_besides(
            "forgets_history", trial.binding, told, seen, trial.expected, trial.quiet.case, because
        )
        if found is not None:
            return with_strays(found, replace(base, watch=watch))
    return None


def _written(trial: Trial, name: str) -> Mask:
    """Return the elements that a fresh call writes; another check reports those that it never writes."""
    kept = unwritten(trial.first, name) & unwritten(trial.second, name)
    return np.asarray(~kept.any(axis=-1) if kept.ndim > 1 else ~kept)


def _earlier(case: Case) -> list[tuple[Case, str]]:
    """Return the case with every request twice, the copies in other blocks, and with reversed requests."""
    requests, rows = case.batch.requests, case.layout.row_index
    offset = 1 + max((max(r.block_ids, default=0) for r in requests), default=0)
    twice = [*requests, *renamed(case, offset).batch.requests]
    rows_twice = None if rows is None else (*rows, *(r + max(rows) + 1 if r >= 0 else r for r in rows))
    same_shapes = permuted(case, list(range(len(requests)))[::-1])
    return [
        (edited(case, twice, rows_twice), "a case twice as large in the same buffers"),
        (same_shapes, "another case of the same shapes in the same buffers"),
    ]

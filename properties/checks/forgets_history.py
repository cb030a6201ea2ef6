"""A call in persistent buffers, after another case, equals a fresh call."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from typing import Any

import numpy as np

from cumae.oracle import Case
from cumae.properties.cases.choices import mixed
from cumae.properties.cases.draws import edited, permuted, renamed
from cumae.properties.cases.edits import with_options_of
from cumae.properties.cases.features import feature_of
from cumae.properties.cases.reducer import valid
from cumae.properties.cases.requests import MANY
from cumae.properties.cases.seeded import seeded_cases
from cumae.properties.comparing.compare import changed, wrong_values
from cumae.properties.comparing.difference import with_strays
from cumae.properties.comparing.judged import wrong_besides
from cumae.properties.comparing.masks import Mask, unwritten
from cumae.properties.interpreter.hooks import watching
from cumae.properties.results.verdict import Finding
from cumae.properties.running.bench import POISON, Bench
from cumae.properties.running.device import interpreting
from cumae.properties.running.observation import Observation
from cumae.properties.running.trial import Trial

OTHER_OPTIONS: Mapping[str, Sequence[Any]] = {
    "window": (3, 128, 0),
    "key_scope": ("prefill", "all"),
    "rank": (1, 0),
    "interleave": (2, 1),
    "token_padding": (0, -1),
    "selection_order": ("falling", "mixed"),
    "selection_seed": (1, 0),
    "workspace_gap": (7, 0),
    "topk": (2, 3),
    "split_size": (1, 2),
    "num_workers": (1, 2),
    "chunk_blocks": (1, 2),
    "chunk_size": (2, 64),
    "absolute_chunks": (True, False),
    "compress_ratio": (4, 2, 1),
    "max_drafts": (1, 3),
    "draft_seed": (1, 0),
    "ring_capacity": (4, 8),
    "key_scale_thousandths": (1_000, 500),
    "value_scale_thousandths": (1_000, 500),
    "scaling_thousandths": (1_000, 2_500),
    "renormalize": (False, True),
    "logits_seed": (0, 1),
}
"""Options that differ from layer to layer, from model to model, or from rank to rank, and values of each."""
MOST_OPTIONS = 2
"""Options that differ, one after the other, for one step."""
MOST_DRAWN, MOST_DOUBTED, LEAST_KEYS = 40, 6, 20
"""Cases that are drawn to tell a function that does not read an option from one that keeps answers; those
that are called, and their least keys: small ones are alike."""


def forgets_history(trial: Trial) -> Finding | None:
    """Call on other cases, each followed by this case in the same buffers.

    One is larger, one has the same shapes, and others are the same step with another value of an option, as
    another layer of a model has.
    """
    base, binding = trial.first, trial.binding
    if base.is_misshapen or base.mistyped:
        return None
    # Each call has an instance of its own, and traces show what an instance returns.
    names = binding.outputs if binding.keeps_state else base.outputs
    live = {name: trial.expected[name].is_repeatable & _written(trial, name) for name in names}
    if not live:
        return None
    earlier = _earlier(trial.quiet.case, trial.number)
    for k, (case, what) in enumerate(chain(earlier, _with_other_options(trial))):
        if binding.why_not(case) is not None:
            continue
        if trial.is_over():
            return None
        # Watch this call too: a stray access in the other case must not end the process.
        because = f"after a call on {what}"
        with watching() if interpreting() else nullcontext() as watch:
            other = trial.bench(case, f"in a call on {what}")
            before = other.call(POISON)
            seen_before = other.answered(before, watch)
            bench = trial.bench(trial.quiet.case, because)
            seen = bench.answered(bench.call(POISON, earlier=before), watch)
        if (stale := _stale(trial, other, seen_before, what)) is not None:
            trial.doubted = _with_options_of(trial, case) if k >= len(earlier) else ()
            return stale
        seen = replace(base, outputs={name: seen.outputs[name] for name in live}, shapes=seen.shapes)
        told = replace(base, outputs={name: base.outputs[name] for name in live})
        found = changed("forgets_history", binding, told, seen, live, because) or wrong_besides(
            "forgets_history", binding, told, seen, trial.expected, trial.quiet.case, because
        )
        if found is not None:
            return with_strays(found, replace(base, watch=watch))
    return None


def _stale(trial: Trial, bench: Bench, seen: Observation, what: str) -> Finding | None:
    """Return the finding if a call on another case gave the answer for this one, which was called before."""
    first = trial.first.outputs
    same = first.keys() == seen.outputs.keys() and all(
        np.array_equal(words, seen.outputs[name]) for name, words in first.items()
    )
    if not same:
        return None
    found = wrong_values("forgets_history", trial.binding, seen, bench.expected(), bench.case)
    here = trial.first, trial.expected, trial.quiet.case
    if found is None or wrong_values("forgets_history", trial.binding, *here) is not None:
        return None
    message = f"a call on {what} repeats the answer for this case, on which it was called before"
    return Finding("forgets_history", message, found.rule, output=found.output)


def _with_options_of(trial: Trial, other: Case) -> tuple[Case, ...]:
    """Return drawn cases with the options of another case: a function that does not read them is wrong there.

    One that keeps answers is right on these, which it has not seen.
    """
    domain, features, batch = trial.binding.domain, trial.binding.features, other.batch
    if "world" in features:
        domain = domain.having(world=(batch.world,))
    found: list[Case] = []
    for drawn in islice(seeded_cases(other.num_keys, domain, features), MOST_DRAWN):
        case = valid(partial(with_options_of, drawn, other))
        if case is not None and case.num_keys >= LEAST_KEYS and trial.binding.why_not(case) is None:
            found.append(case)
    return tuple(found[:MOST_DOUBTED])


def _written(trial: Trial, name: str) -> Mask:
    """Return the elements that a fresh call writes; another check reports those that it never writes."""
    kept = unwritten(trial.first, name) & unwritten(trial.second, name)
    return np.asarray(~kept.any(axis=-1) if kept.ndim > 1 else ~kept)


def _with_other_options(trial: Trial) -> Iterator[tuple[Case, str]]:
    """Return the case with another value of one option, and of a second one; the trial's number chooses them.

    The block size counts as an option.
    """
    names = [name for name in OTHER_OPTIONS if feature_of(name) in trial.binding.features]
    names.append("block_size")
    first = mixed(trial.number) % len(names)
    others = (_with_another(trial, name) for name in (*names[first:], *names[:first]))
    return islice((other for other in others if other is not None), MOST_OPTIONS)


def _with_another(trial: Trial, name: str) -> tuple[Case, str] | None:
    """Return the case with the first other value of an option that fits it, None without one."""
    case = trial.quiet.case
    for value in (2 * case.batch.block_size,) if name == "block_size" else OTHER_OPTIONS[name]:
        other = _having(case, name, value)
        if other not in (None, case) and trial.binding.why_not(other) is None:
            return other, f"the same step with {name} = {value!r}"
    return None


def _having(case: Case, name: str, value: Any) -> Case | None:
    """Return the step with another value of an option, or in other blocks; None if it does not fit them."""
    try:
        if name == "block_size":
            return replace(case, batch=replace(case.batch, block_size=value))
        return replace(case, options=case.options.having(**{name: value}))
    except ValueError:
        return None


def _earlier(case: Case, number: int) -> list[tuple[Case, str]]:
    """Return the case with every request twice, the copies in other blocks, and with reversed requests.

    In every second trial the first and the last request stay where they are, or three at each end of many:
    a shortened text of a tensor shows no more.
    """
    requests, rows = case.batch.requests, case.layout.row_index
    offset = 1 + max((max(r.block_ids, default=0) for r in requests), default=0)
    twice = [*requests, *renamed(case, offset).batch.requests]
    rows_twice = None if rows is None else (*rows, *(r + max(rows) + 1 if r >= 0 else r for r in rows))
    order = list(range(len(requests)))
    kept = number % 2 * (3 if len(order) > MANY else int(len(order) > 3))
    order[kept : len(order) - kept] = order[kept : len(order) - kept][::-1]
    return [
        (edited(case, twice, rows_twice), "a case twice as large in the same buffers"),
        (permuted(case, order), "another case of the same shapes, in the same tensors with other content"),
    ]

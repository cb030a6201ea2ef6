"""Traces each step of which is nearly the one before: a weak key shows there."""

from itertools import chain
from math import inf

from cumae.oracle import Phase, Trace
from cumae.properties.search.examiner import Examiner
from cumae.properties.search.steps import examine_trace
from cumae.properties.state.system import System
from cumae.properties.steps.alike import limited_of, telling_of
from cumae.properties.steps.chunks_in_turns import behind_a_little_more, behind_little
from cumae.properties.steps.churn import (
    behind_a_prompt,
    beside_saturated,
    churned,
    in_a_crowd,
    in_equal_chunks,
    in_other_hands,
    in_two_batches,
    past_windows,
    saturated,
    verified_in_turns,
)
from cumae.properties.steps.collisions import (
    between_equal_ends,
    changed_alone,
    changed_far,
    collisions,
    exchanged,
    in_other_phases,
    of_one_size,
)
from cumae.properties.steps.days import a_day
from cumae.properties.steps.growth import advanced, given_back, grown, shrunk_again, steady, verified_unevenly
from cumae.properties.steps.ladder import Ladder
from cumae.properties.steps.moved_blocks import (
    in_far_rows,
    in_other_blocks,
    in_other_layers,
    reordered,
    with_another,
)
from cumae.properties.steps.other_layers import LAYERS, in_layers_of
from cumae.properties.steps.steady_decodes import gone_on

PATIENCE = 3.0
"""Seconds after which a function that is no class gets no more steps: it is slow."""
SATURATED = ((67, 63), (67, 0), (12, 9))
"""Decodes of steps, and one that sees more keys than are selected, which changes places with the next one."""
EXCHANGED = ((131, 129), (131, 66), (1_029, 1_026))
"""Decodes of steps, and the first of two that exchange their lengths."""
CHANGED = ((130, 129), (130, 66), (1_030, 1_028))
"""Decodes of steps that are alike, and the one that changes: a key of the first ones alone misses it."""
LONG_WINDOWS = (512, 1_024, 4_096)
PROMPTS = ((512, 2_100), (16, 4_200))
"""Keys that each token selects at most, and the tokens of a long prompt between two steps of decodes."""
RANKS = 2
"""Ranks of a batch whose requests change."""
SIZED = (
    (16, (14, 12, 16, 13, 14)),
    (512, (400, 300, 512, 257, 400)),
    (0, (400, 300, 500, 261)),
    (0, (330, 260, 90, 170)),
)
"""Sizes of captured graphs, 0 for none, and the decodes of steps that are padded to them."""


def examine_nearly_alike(examiner: Examiner) -> None:
    """Examine traces each step of which is nearly the one before.

    A function that is no class may keep what it returned all the same: it gets those of few requests.
    """
    ladder = Ladder(examiner.binding.domain, examiner.binding.features)
    phases: tuple[Phase, ...] = ("prefill", "decode")
    phased = (in_other_phases(scope, one, ladder) for scope in ("prefill", "all") for one in phases)
    moved = (in_other_blocks(ladder), in_other_layers(ladder))
    seeded = (with_another(name, ladder) for name in ("draft_seed", "selection_seed", "workspace_gap"))
    others = (advanced(ladder), verified_unevenly(ladder), given_back(ladder), *moved, *seeded)
    limited = limited_of(ladder)
    chunks = (behind_little(ladder), *(behind_a_little_more(one) for one in limited))
    late_at = inf if examiner.binding.keeps_state else examiner.clock + PATIENCE
    for trace in chain(collisions(ladder), phased, others, chunks):
        if trace is not None:
            examine_trace(examiner, trace, late_at)
    if not examiner.binding.keeps_state:
        return
    alone = (changed_alone(ladder, *place) for place in CHANGED)
    late = (exchanged(ladder, *place) for place in EXCHANGED)
    sized = (of_one_size(ladder, *sizes) for sizes in SIZED)
    alike = (changed_far(ladder), reordered(ladder), in_far_rows(ladder), grown(ladder))
    telling, ranks = telling_of(ladder), ladder.on_ranks(RANKS)
    rungs = (telling, *([] if ranks is None else [telling_of(ranks)]), *limited)
    running = (run(one) for one in rungs for run in (steady, churned, a_day))
    crowds = (in_a_crowd(one) for one in rungs)
    windows = (past_windows(window, ladder) for window in LONG_WINDOWS)
    prompts = (behind_a_prompt(telling_of(ladder, topk), length) for topk, length in PROMPTS)
    changing = (
        verified_in_turns(ladder),
        in_equal_chunks(telling),
        saturated(ladder),
        in_two_batches(telling),
    )
    beyond = (run(one) for one in limited for run in (verified_unevenly, between_equal_ends, in_other_hands))
    full = (beside_saturated(ladder, *place) for place in SATURATED)
    more, ends = (crowds, windows, prompts, full), (gone_on(ladder), shrunk_again(ladder))
    layers = (_of_one_instance(examiner, in_layers_of(name, ladder)) for name in LAYERS)
    for trace in chain(alike, layers, running, beyond, changing, *more, sized, late, alone, ends):
        if trace is not None:
            examine_trace(examiner, trace)


def _of_one_instance(examiner: Examiner, trace: Trace | None) -> Trace | None:
    """Return a trace in which options change, None if an instance is made for one value of them."""
    system = System(examiner.binding, examiner.device)
    return trace if trace is not None and all(map(system.fits, trace.steps)) else None

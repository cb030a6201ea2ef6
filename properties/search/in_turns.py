"""Cases of more than one tile on which programs that share elements take turns."""

from cumae.properties.search.examiner import Examiner
from cumae.properties.steps.ladder import Ladder
from cumae.properties.steps.option_sizes import valued

SIZES, WORLDS = (33, 130), (2, 8)
"""Tokens or requests of the cases, and their numbers of ranks."""


def take_turns(examiner: Examiner) -> None:
    """Examine cases of more than one tile for the order of programs, if they were seen to share elements."""
    checks = ("agrees", "holds_in_any_order")
    if not examiner.shares or examiner.verdict.failure is not None:
        return
    ladder = Ladder(examiner.binding.domain, examiner.binding.features)
    for size in SIZES:
        ranked = (ranks.many(size) for ranks in map(ladder.on_ranks, WORLDS) if ranks is not None)
        for case in (ladder.many(size), ladder.long(size), *ranked, *valued(ladder, size)):
            if case is not None and not examiner.pace.is_late():
                examiner.examine(case, checks=checks)

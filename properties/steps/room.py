"""Cases with room in tables, buffers and bounds beyond what their tokens need."""

from typing import Any

from cumae.oracle import Case
from cumae.properties.steps.crowds import Lens, short
from cumae.properties.steps.ladder import Ladder


def roomy(ladder: Ladder, size: int) -> Case | None:
    """Return a case of few requests in tables with ``size`` more rows, and about as many more columns.

    A long request lacks blocks in the middle of its row.
    """
    block_size = min(ladder.sizes)
    lens: list[Lens] = [("prefill", 2, 3), ("decode", 3 * size * block_size, 1), *short(5)]
    room: dict[str, Any] = {"num_spare_columns": size // 2, "num_spare_rows": size}
    if "page_slack" in ladder.features and size in ladder.domain.among("page_slack", (size,)):
        room["page_slack"] = size
    return ladder.unlimited.case(lens, seed=size, block_size=block_size, holes=True, **room)


def bounded(ladder: Ladder, slack: int) -> Case | None:
    """Return a case of which the host's bound on contexts is so far beyond the longest."""
    promised = slack in ladder.domain.among("context_slack", (slack,))
    if "context_slack" not in ladder.features or not promised:
        return None
    return ladder.case(list(short(41)), seed=slack, block_size=ladder.usual_block, context_slack=slack)


def spare(ladder: Ladder, size: int) -> Case | None:
    """Return a case of few tokens in buffers for ``size`` more."""
    if "num_spare_tokens" not in ladder.features:
        return None
    if size not in ladder.domain.among("num_spare_tokens", (size,)):
        return None
    return ladder.case(list(short(3)), seed=size, block_size=ladder.usual_block, num_spare_tokens=size)

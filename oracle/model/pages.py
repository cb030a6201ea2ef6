"""The pages of a step's requests: where cached prefixes end, and the free pages from which they go on."""

from cumae.oracle.model.case import Case
from cumae.oracle.model.rules import require


def last_locs(case: Case) -> list[int]:
    """Return the slot of each live request's last cached token, -1 for none.

    Raises ``ValueError`` if the token has no block.
    """
    size, found = case.batch.tokens_per_block, []
    for b, request in enumerate(case.batch.requests):
        if not request.context_len:
            found.append(-1)
            continue
        column, offset = divmod(request.context_len - 1, size)
        block_id = request.block_ids[column]
        require(block_id >= 0, f"requests[{b}].block_ids[{column}]", block_id, "be a page that is held")
        found.append(block_id * size + offset)
    return found


def free_pages(case: Case) -> list[int]:
    """Return the free pages: those that the step takes, in order, then spare pages that no request holds.

    A request takes the blocks behind its cached prefix. The spare pages lie beyond all ids: in rising order
    if the others rise, as on a fresh server, else the last one first. A layout without any has just enough.
    Raises ``ValueError`` if a block to be taken is missing.
    """
    size, found = case.batch.tokens_per_block, []
    for b, request in enumerate(case.batch.requests):
        for column in range(-(-request.context_len // size), -(-request.seq_len // size)):
            block_id = request.block_ids[column]
            require(block_id >= 0, f"requests[{b}].block_ids[{column}]", block_id, "be a page to take")
            found.append(block_id)
    beyond = range(case.num_cache_blocks - case.layout.num_spare_blocks, case.num_cache_blocks)
    return [*found, *(beyond if found == sorted(found) else reversed(beyond))]

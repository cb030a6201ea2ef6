"""Steps made by hand, and what the oracles say of them."""

from cumae.oracle import Batch, Case, Layout, Options, Request, position_ids, slot_mapping
from cumae.properties.tests.simulation.simulated import oracle_answer


def prefill(context_len: int, query_len: int, *block_ids: int) -> Request:
    return Request(context_len, query_len, block_ids, "prefill")


def decode(context_len: int, query_len: int, *block_ids: int) -> Request:
    return Request(context_len, query_len, block_ids, "decode")


def step(*requests: Request, block_size: int = 64, world: int = 1) -> Batch:
    """Return a batch; a request given without blocks gets some, each its own, out of order."""
    taken = 1000
    given_blocks = []
    for request in requests:
        count = -(-request.seq_len // (block_size * world))
        taken -= count
        ids = request.block_ids or tuple(range(taken, taken + count))[::-1]
        given_blocks.append(Request(request.context_len, request.query_len, ids, request.phase))
    return Batch(tuple(given_blocks), block_size, world)


def positions(batch: Batch, layout: Layout | None = None) -> list[object]:
    return oracle_answer(position_ids, Case(batch, layout or Layout()))["position_ids"]


def slots(batch: Batch, layout: Layout | None = None, options: Options | None = None) -> list[object]:
    return oracle_answer(slot_mapping, Case(batch, layout or Layout(), options or Options()))["slot_mapping"]

"""Chunks of cached context, simulated token by token."""

from collections.abc import Iterator
from itertools import cycle, groupby

from cumae.oracle import Batch
from cumae.properties.tests.simulation.tokens import Answer, Token, lives_of

_NAMES = ("part_chunk", "part_request", "part_start", "part_stop")


def any_chunks(batch: Batch, *, workspace_tokens: int, interleave: int) -> Answer:
    """Return the parts that come up as tokens take seats; tokens between two cuts stay together.

    A chunk has a seat for each row of a rank's workspace. Each round of the ranks that begins takes the seats
    of a whole round, ``interleave`` on each rank.
    """
    share = 1 if batch.world == 1 else interleave
    seats, chunk = list(range(workspace_tokens)), 0
    seated: list[tuple[int, Token]] = []
    num_pieces = 0
    for life in lives_of(batch):
        for piece in _pieces([token for token in life if not token.is_new], batch, share):
            num_pieces += 1
            taken = [seat for _, begins_round in piece if begins_round for seat in range(share)]
            if len(seats) < len(taken):
                seats, chunk = list(range(workspace_tokens)), chunk + 1
            del seats[: len(taken)]
            seated.extend((chunk, token) for token, _ in piece)
    rows: list[tuple[int, ...]] = []
    for (in_chunk, request), held in groupby(seated, key=lambda entry: (entry[0], entry[1].request)):
        numbers = [token.number for _, token in held]
        rows.append((in_chunk, request, numbers[0], numbers[-1] + 1))
    rows.extend((-1, -1, -1, -1) for _ in range(num_pieces - len(rows)))
    return {name: [row[column] for row in rows] for column, name in enumerate(_NAMES)}


def _pieces(tokens: list[Token], batch: Batch, share: int) -> Iterator[list[tuple[Token, bool]]]:
    """Yield the tokens up to each cut, where a block and a round begin together; which begin a round."""
    piece: list[tuple[Token, bool]] = []
    blocks, rounds = cycle(range(batch.block_size)), cycle(range(batch.world * share))
    for token, in_block, in_round in zip(tokens, blocks, rounds, strict=False):
        if piece and in_block == in_round == 0:
            yield piece
            piece = []
        piece.append((token, in_round == 0))
    if piece:
        yield piece

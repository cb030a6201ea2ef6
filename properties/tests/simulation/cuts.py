"""Sequences cut into chunks and into decodes of one token, simulated token by token."""

from cumae.oracle import Case
from cumae.properties.tests.simulation.tokens import Answer, Token, groups_of, lives_of


def sequence_chunks(case: Case) -> Answer:
    """Put tokens into boxes of ``chunk_size``, one after another, and number those with a new token.

    With absolute chunks, cached tokens are put into boxes too.
    """
    boxes: list[tuple[int, int]] = []
    ends = [0]
    for b, life in enumerate(lives_of(case.batch)):
        boxed = range(len(life)) if case.options.chunks.absolute_chunks else _new(life)
        number = 0
        for box in groups_of(boxed, case.options.chunks.chunk_size):
            if life[box[-1]].is_new:
                boxes.append((b, number))
                number += 1
        ends.append(len(boxes))
    ends += [len(boxes)] * case.layout.num_padding_requests
    unused = [(-1, 0)] * (case.max_sequence_chunks - len(boxes))
    sequences, numbers = zip(*boxes, *unused, strict=True) if boxes or unused else ((), ())
    return {"chunk_sequences": [*sequences], "chunk_numbers": [*numbers], "chunk_offsets": [*ends]}


def _new(life: list[Token]) -> list[int]:
    return [token.number for token in life if token.is_new]


def flat_decodes(case: Case) -> Answer:
    """Let every new token look at the tokens that are there when it comes, and pick topk of them at most."""
    answer: Answer = {"key_lens": [], "selected_lens": [], "selected_indptr": [0]}
    picked: list[Token] = []
    for life in lives_of(case.batch):
        there: list[Token] = []
        for token in life:
            there.append(token)
            if token.is_new:
                chosen = there[-case.options.selection.topk :]
                picked += chosen
                answer["key_lens"].append(len(there))
                answer["selected_lens"].append(len(chosen))
                answer["selected_indptr"].append(len(picked))
    for _ in range(case.layout.num_padding_tokens):
        answer["key_lens"].append(0)
        answer["selected_lens"].append(0)
        answer["selected_indptr"].append(len(picked))
    return answer

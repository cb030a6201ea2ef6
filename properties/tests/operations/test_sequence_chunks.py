"""Sequences cut into chunks: worked by hand, and functions that are right or wrong about them."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

import cumae
from cumae.fixtures.correct.cuts import sequence_chunks as right
from cumae.gpu_impl import write_sequence_chunks
from cumae.oracle import Batch, Case, Inputs, Options, Request, sequence_chunks
from cumae.properties.cases.domain import Domain
from cumae.properties.operations.axes import axis_named
from cumae.properties.operations.places import Seen
from cumae.properties.running.device import prepare

DEVICE = prepare("auto")
TORCH = Domain(captured=False, strided=False)


def offsets(lens: list[int], size: int, contexts: list[int] | None = None) -> list[int]:
    starts = [sum(lens[:b]) for b in range(len(lens) + 1)]
    return sequence_chunks(starts, contexts, len(lens), size, sum(lens)).chunk_offsets


class TestSequenceChunks:
    def test_a_rest_is_a_chunk(self) -> None:
        assert offsets([5, 4, 0, 1], 2) == [0, 3, 5, 5, 6]

    def test_the_number_of_absolute_chunks_is_that_of_the_formula(self) -> None:
        for context in range(9):
            for query in range(1, 9):
                count = -(-(context + query) // 4) - context // 4
                assert offsets([query], 4, [context]) == [0, count]

    def test_a_context_of_whole_chunks_changes_nothing(self) -> None:
        assert offsets([7, 3], 4, [8, 4]) == offsets([7, 3], 4)

    def test_two_steps_make_at_most_one_chunk_more_than_one(self) -> None:
        for cut in range(1, 9):
            assert sum(offsets([n], 4)[-1] for n in (cut, 9 - cut)) in (3, 4)

    def test_a_padded_request_has_no_chunk_whatever_its_rows(self) -> None:
        found = sequence_chunks([0, 2, 9], None, 1, 2, 3)
        assert found == ([0, -1, -1], [0, 0, 0], [0, 1, 1])

    def test_a_list_that_is_too_short_is_refused(self) -> None:
        with pytest.raises(ValueError, match="chunks = 2, must be <= 1 entries"):
            sequence_chunks([0, 3], None, 1, 2, 1)

    def test_a_list_of_the_case_is_never_too_short_and_may_be_full(self) -> None:
        def slack(context: int, *lens: int, **options: Any) -> int:
            requests = tuple(Request(context, n, (b,)) for b, n in enumerate(lens))
            found = Inputs(Case(Batch(requests, 256), options=Options.of(**options))).call(sequence_chunks)
            return sum(b < 0 for b in found.chunk_sequences)

        assert (slack(0, 5), slack(0, 3, 5), slack(3, 2, absolute_chunks=True)) == (0, 1, 0)


def test_a_chunk_is_placed_at_its_request_and_positions() -> None:
    case = Case(
        Batch((Request(0, 0), Request(5, 6, (4, 1, 6))), 4),
        options=Options.of(chunk_size=4, absolute_chunks=True),
    )
    placing = axis_named("sequence_chunk").placing
    assert placing.text(case, 0, Seen()) == "entry 0: request 1, chunk 0, positions 5 to 7"
    assert placing.text(case, 1, Seen()) == "entry 1: request 1, chunk 1, positions 8 to 10"
    assert placing.text(case, 2, Seen()) == "entry 2: behind the last chunk"
    pairs = axis_named("chunk_pair").placing
    assert [pairs.place(case, i, Seen()).position for i in range(5)] == [5, 5, 8, 8, None]


def sequences_with_rows(
    cu_seqlens_q: torch.Tensor,
    chunk_context_lens: torch.Tensor | None,
    num_requests: int,
    chunk_size: int,
    chunk_sequences: torch.Tensor,
    chunk_numbers: torch.Tensor,
    chunk_offsets: torch.Tensor,
) -> None:
    right(
        cu_seqlens_q,
        chunk_context_lens,
        num_requests,
        chunk_size,
        chunk_sequences,
        chunk_numbers,
        chunk_offsets,
    )
    begins = (chunk_numbers == 0) & (chunk_sequences >= 0)
    chunk_sequences.copy_(torch.where(chunk_sequences >= 0, begins.cumsum(0) - 1, -1))


def list_left_alone_behind_the_last(
    cu_seqlens_q: torch.Tensor,
    chunk_context_lens: torch.Tensor | None,
    num_requests: int,
    chunk_size: int,
    chunk_sequences: torch.Tensor,
    chunk_numbers: torch.Tensor,
    chunk_offsets: torch.Tensor,
) -> None:
    sequences, numbers = torch.empty_like(chunk_sequences), torch.empty_like(chunk_numbers)
    right(cu_seqlens_q, chunk_context_lens, num_requests, chunk_size, sequences, numbers, chunk_offsets)
    count = int(chunk_offsets[-1])
    chunk_sequences[:count], chunk_numbers[:count] = sequences[:count], numbers[:count]


@pytest.mark.parametrize(
    ("wrong", "check"),
    [(sequences_with_rows, "agrees"), (list_left_alone_behind_the_last, "writes_everything")],
)
def test_a_wrong_one_is_found(wrong: Callable[..., None], check: str) -> None:
    verdict = cumae.check(wrong, "sequence_chunks", domain=TORCH, examples=40, save_to=None)
    assert verdict.failure is not None
    assert verdict.failure.finding.check == check
    assert verdict.failure.finding.axis == "sequence_chunk"


def arguments() -> dict[str, Any]:
    """Arguments that the launcher accepts."""

    def filled(size: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
        return torch.full((size,), 77, dtype=dtype, device=DEVICE)

    return {
        "cu_seqlens_q": torch.tensor([0, 2, 2, 5], dtype=torch.int32, device=DEVICE),
        "chunk_context_lens": torch.tensor([3, 0, 4], device=DEVICE),
        "num_requests": 3,
        "chunk_size": 2,
        "chunk_sequences": filled(5),
        "chunk_numbers": filled(5),
        "chunk_offsets": filled(4, torch.int64),
    }


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("num_requests", 4, "num_requests = 4"),
        ("chunk_size", 0, "chunk_size = 0"),
        ("cu_seqlens_q", torch.zeros(4), "cu_seqlens_q."),
        ("chunk_context_lens", torch.zeros(4, dtype=torch.int64), "chunk_context_lens.shape = (4,)"),
        ("chunk_sequences", torch.ones(5, dtype=torch.int64), "chunk_sequences.dtype = torch.int64"),
        ("chunk_numbers", torch.ones(4, dtype=torch.int32), "chunk_numbers.shape = (4,)"),
        ("chunk_offsets", torch.ones(4, dtype=torch.int32), "chunk_offsets.dtype = torch.int32"),
    ],
)
def test_the_launcher_refuses_bad_input_before_it_writes(field: str, value: Any, says: str) -> None:
    good = arguments()
    write_sequence_chunks(**good)
    assert good["chunk_sequences"].tolist() == [0, 0, 2, 2, -1]
    bad = arguments() | {field: value.to(DEVICE) if isinstance(value, torch.Tensor) else value}
    with pytest.raises(ValueError, match=rf"^{re.escape(says)}.*, must "):
        write_sequence_chunks(**bad)
    outputs = ("chunk_sequences", "chunk_numbers", "chunk_offsets")
    assert all((bad[name] == 77).all() for name in outputs if name != field)

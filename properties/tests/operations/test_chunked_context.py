"""Chunks of cached context: what holds of them whatever the batch, and steps too large to be drawn often."""

from itertools import islice
from typing import Any

import pytest
import torch

from cumae import gpu_impl, oracle
from cumae.oracle import Case, Inputs
from cumae.properties.cases.seeded import seeded_cases
from cumae.properties.running.device import prepare
from cumae.properties.tests.broken.selections import (
    chunks_of_parts_of_a_block,
    empty_chunk_holds_the_one_before,
)

DEVICE = prepare("auto")
FEATURES = ("key_scope", "context_slack", "workspace")


def broken_facts(function: Any, case: Case) -> list[str]:
    """Return what does not hold of the chunks that a function gives."""
    chunks, count = Inputs(case).call(function), case.num_requests_padded
    lens = [chunks.chunk_lens[i : i + count] for i in range(0, len(chunks.chunk_lens), count or 1)]
    requests = case.batch.requests
    everybody = case.options.keys.key_scope == "all"
    contexts = [r.context_len if everybody or r.phase == "prefill" else 0 for r in requests]
    contexts += [0] * case.layout.num_padding_requests
    whole = [sum(of_request) for of_request in zip(*lens, strict=True)] or [0] * count
    facts = {
        "the lengths of a request are its context": whole == contexts,
        "a chunk fits the workspace": max(map(sum, lens), default=0) <= case.workspace_tokens,
        "a chunk begins with a block": all(
            start % case.batch.block_size == 0 for start in chunks.chunk_starts
        ),
    }
    return [fact for fact, holds in facts.items() if not holds]


def cases(number: int) -> list[Case]:
    return list(islice(seeded_cases(number, features=FEATURES), 200))


def test_contexts_are_whole_and_chunks_fit() -> None:
    assert [case for case in cases(1) if broken_facts(oracle.chunked_context, case)] == []


@pytest.mark.parametrize(
    ("function", "fact"),
    [
        (chunks_of_parts_of_a_block, "a chunk begins with a block"),
        (empty_chunk_holds_the_one_before, "the lengths of a request are its context"),
    ],
)
def test_wrong_chunks_break_a_fact(function: Any, fact: str) -> None:
    assert any(fact in broken_facts(function, case) for case in cases(2))


def chunks_of(context_lens: list[int], workspace: int, block_size: int) -> dict[str, list[int]]:
    num_with_context = sum(length > 0 for length in context_lens)
    count = -(-max(context_lens) // (workspace // num_with_context // block_size * block_size))
    entries = count * len(context_lens)
    sizes = (entries, entries, entries + count, count, count)
    chunks = [torch.full((size,), 77, dtype=torch.int32, device=DEVICE) for size in sizes]
    gpu_impl.write_chunked_context(
        torch.tensor(context_lens, device=DEVICE),
        torch.ones(len(context_lens), dtype=torch.bool, device=DEVICE),
        workspace,
        block_size,
        num_with_context,
        max(context_lens),
        "all",
        *chunks,
    )
    names = oracle.ChunkedContext._fields
    return {name: values.tolist() for name, values in zip(names, chunks, strict=True)}


@pytest.mark.usefixtures("watched")
@pytest.mark.parametrize("count", [64, 65, 1024, 1025, 70_001])
def test_requests_of_several_tiles_are_summed_up(count: int) -> None:
    context_lens = [(b * 37 + b // 1024) % 11 for b in range(count)]
    expected = oracle.chunked_context(context_lens, [True] * count, 4 * count, 4, max(context_lens))
    assert chunks_of(context_lens, 4 * count, 4) == expected._asdict()


def test_chunks_of_several_programs_are_all_written() -> None:
    context_lens = [150, 0, 131, 149]
    expected = oracle.chunked_context(context_lens, [True] * 4, 5, 1, 150)
    assert len(expected.chunk_totals) == 150
    assert chunks_of(context_lens, 5, 1) == expected._asdict()


def test_a_context_as_long_as_int32_counts() -> None:
    assert chunks_of([2**31 - 1], 2**30 + 5, 2**20) == {
        "chunk_starts": [0, 2**30],
        "chunk_lens": [2**30, 2**30 - 1],
        "chunk_cu_seqlens": [0, 2**30, 0, 2**30 - 1],
        "chunk_totals": [2**30, 2**30 - 1],
        "chunk_maxima": [2**30, 2**30 - 1],
    }

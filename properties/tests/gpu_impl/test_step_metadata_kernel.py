"""One launch for all of a step: by each of its operations, and as a whole."""

from itertools import islice
from typing import Any

import pytest
import torch

from cumae import gpu_impl, oracle
from cumae.gpu_impl import request_scan, step_metadata
from cumae.oracle import Case, OperationName
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.seeded import large_case, seeded_cases
from cumae.properties.operations import OPERATIONS
from cumae.properties.operations.targets import load_function
from cumae.properties.operations.whole_step import NEUTRAL, WHOLE_STEP
from cumae.properties.running.device import prepare
from cumae.properties.running.tensors import tensors
from cumae.properties.search.direct import check
from cumae.properties.tests.simulation.simulated import oracle_answer

DEVICE = prepare("auto")
FUSED = tuple(WHOLE_STEP.values())
INPUTS = ("context_lens", "query_lens", "is_prefill", "block_table", "row_index", "block_size")
OPTIONS = (
    "kernel_block_size",
    "compress_ratio",
    "window",
    "world",
    "rank",
    "interleave",
    "key_scope",
    "token_padding",
    "dummy_request",
)
# Tensors that the functions in `whole_step` make for the outputs they drop cannot be captured.
DOMAIN = Domain(captured=False)


@pytest.fixture(params=["one launch", "two launches", "four launches, several tiles a program"])
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let the other forms scan one request at most, so that small steps take their launches too."""
    if request.param == "two launches":
        monkeypatch.setattr(request_scan, "REQUESTS_PER_SCAN", (1, 256, request_scan.MAX_REQUESTS))
        monkeypatch.setattr(request_scan, "MOST_SCANNED", 0)
    elif request.param != "one launch":
        monkeypatch.setattr(request_scan, "REQUESTS_PER_SCAN", (1,))
        monkeypatch.setattr(step_metadata, "MANY_TOKENS", 0)
    return str(request.param)


@pytest.mark.parametrize(("target", "name"), WHOLE_STEP.items(), ids=FUSED)
def test_each_operation_passes_every_check(target: str, name: OperationName) -> None:
    verdict = check(load_function(target), name, domain=DOMAIN, examples=12, save_to=None)
    assert verdict, verdict
    assert verdict.comparisons > verdict.cases >= 24


@pytest.mark.usefixtures("form")
def test_a_layout_of_its_own_passes_every_check() -> None:
    verdict = check(gpu_impl.write_sequence_layout, "sequence_layout", examples=12, save_to=None)
    assert verdict, verdict


def written(case: Case) -> dict[str, list[Any]]:
    """Return all outputs of one call."""
    held = tensors(case, device=DEVICE, names=(*INPUTS, *OPTIONS))
    outputs: dict[str, Any] = {}
    for name in FUSED:
        for output in OPERATIONS[name].outputs:
            size = len(oracle_answer(oracle.OPERATIONS[name], case)[output.name])
            dtype = torch.int64 if output.dtype == "int64" else torch.int32
            outputs[output.name] = torch.full((size,), 77, dtype=dtype, device=DEVICE)
    gpu_impl.write_step_metadata(**held, **outputs)
    return {name: output.tolist() for name, output in outputs.items()}


@pytest.mark.usefixtures("form", "watched")
@pytest.mark.parametrize("seed", range(2))
def test_one_call_agrees_with_every_oracle(seed: int) -> None:
    cases = (
        case
        for case in seeded_cases(seed)
        if case.options.keys.compress_ratio == 1 or case.options.keys.window == 0
    )
    for case in islice(cases, 30):
        answers = [oracle_answer(oracle.OPERATIONS[name], case) for name in FUSED]
        expected = {name: values for answer in answers for name, values in answer.items()}
        assert written(case) == expected, case


@pytest.mark.parametrize(
    ("num_requests", "num_tokens", "shape"),
    [
        (600, 16_896, (1024, 128, 4)),
        (600, 16_897, (1024, 256, 8)),
        (1_030, 16_897, (4096, 256, 8)),
        (1_030, 33_793, (4096, 512, 8)),
    ],
)
def test_each_shape_of_scan_agrees_with_every_oracle(
    num_requests: int, num_tokens: int, shape: tuple[int, int, int]
) -> None:
    drawn = large_case(1, Domain(), (), num_requests=num_requests, num_tokens=num_tokens)
    case = Case(drawn.batch, options=drawn.options)
    assert request_scan.shape_of_scan(num_requests, num_tokens) == shape
    expected = {
        name: values for one in FUSED for name, values in oracle_answer(oracle.OPERATIONS[one], case).items()
    }
    assert written(case) == expected


def test_programs_search_where_too_many_would_scan_too_much() -> None:
    assert request_scan.shape_of_scan(1_030, 67_584) == (4096, 512, 8)
    assert request_scan.shape_of_scan(1_030, 67_585) == (0, 256, 4)
    assert request_scan.shape_of_scan(600, 67_585) == (1024, 256, 4)


def outputs_of(num_requests: int, num_tokens_padded: int) -> dict[str, Any]:
    sizes = {"cu_seqlens_q": num_requests + 1, "cu_seqlens_k": num_requests + 1}
    sizes |= {"max_seqlen_q": 1, "max_seqlen_k": 1}
    sizes |= dict.fromkeys(
        ("token_to_request", "ks", "ke", "position_ids", "slot_mapping"), num_tokens_padded
    )
    outputs: dict[str, Any] = {}
    for name, size in sizes.items():
        dtype = torch.int64 if name in ("position_ids", "slot_mapping") else torch.int32
        outputs[name] = torch.full((size,), 77, dtype=dtype, device=DEVICE)
    return outputs


def step(context_lens: list[int], query_lens: list[int], num_tokens_padded: int) -> dict[str, list[Any]]:
    """Return all outputs of a step of prefills with blocks of 4 tokens, request b having blocks 100 b on."""
    num_requests = len(query_lens)
    rows = torch.arange(num_requests, dtype=torch.int32)[:, None] * 100 + torch.arange(80, dtype=torch.int32)
    outputs = outputs_of(num_requests, num_tokens_padded)
    gpu_impl.write_step_metadata(
        torch.tensor(context_lens, dtype=torch.int32, device=DEVICE),
        torch.tensor(query_lens, dtype=torch.int32, device=DEVICE),
        torch.ones(num_requests, dtype=torch.bool, device=DEVICE),
        rows.to(DEVICE),
        **NEUTRAL | {"block_size": 4, "kernel_block_size": 4},
        **outputs,
    )
    return {name: output.tolist() for name, output in outputs.items()}


def by_hand(context_lens: list[int], query_lens: list[int], num_tokens_padded: int) -> dict[str, list[Any]]:
    rows: list[tuple[int, int, int, int, int]] = []
    cu_q, cu_k = [0], [0]
    for b, (context_len, query_len) in enumerate(zip(context_lens, query_lens, strict=True)):
        for p in range(context_len, context_len + query_len):
            rows.append((b, p, (100 * b + p // 4) * 4 + p % 4, cu_k[-1], cu_k[-1] + p + 1))
        cu_q.append(cu_q[-1] + query_len)
        cu_k.append(cu_k[-1] + context_len + query_len)
    rows += [(-1, 0, -1, 0, 0)] * (num_tokens_padded - len(rows))
    names = ("token_to_request", "position_ids", "slot_mapping", "ks", "ke")
    live = [c + q for c, q in zip(context_lens, query_lens, strict=True) if q]
    return {
        "cu_seqlens_q": cu_q,
        "cu_seqlens_k": cu_k,
        "max_seqlen_q": [max(query_lens, default=0)],
        "max_seqlen_k": [max(live, default=0)],
    } | {name: [row[i] for row in rows] for i, name in enumerate(names)}


@pytest.mark.usefixtures("form", "watched")
@pytest.mark.parametrize(
    "query_lens",
    [
        [1] * 300,
        [1] * 128 + [0] + [1] * 127,
        [1] * 127 + [2] + [1] * 128,
        [1] * 60 + [0] + [1] * 60,
        [1] * 60 + [2] + [1] * 60,
        [2] * 64,
        [0] * 130 + [1] * 130 + [0] * 130,
        [129] + [1] * 127 + [0, 2] * 70,
        [2, 0] * 128,
        [0, 0, 128, 0, 0, 128, 0, 0],
        [257, 0, 1, 256, 0, 0, 127],
    ],
    ids=[
        "decodes",
        "an idle request among decodes",
        "one of two tokens at the edge of a tile",
        "an idle request within a tile of decodes",
        "one of two tokens within a tile of decodes",
        "verifies",
        "idle ones around decodes",
        "a chunk, decodes, verifies",
        "idle ones between verifies",
        "tiles that requests fill",
        "edges off by one",
    ],
)
@pytest.mark.parametrize("num_padding_tokens", [0, 3, 100])
def test_tiles_of_every_mixture_are_right(query_lens: list[int], num_padding_tokens: int) -> None:
    """A tile has 128 tokens here. One in which each request has one token takes no search."""
    context_lens = [(7 * b) % 23 for b in range(len(query_lens))]
    num_tokens_padded = sum(query_lens) + num_padding_tokens
    actual = step(context_lens, query_lens, num_tokens_padded)
    assert actual == by_hand(context_lens, query_lens, num_tokens_padded)


@pytest.mark.usefixtures("form", "watched")
@pytest.mark.parametrize("num_requests", [63, 64, 65, 257, 1025, 4096, 4097])
def test_every_size_of_a_scan_is_right(num_requests: int) -> None:
    query_lens = [(b * b) % 5 // 3 for b in range(num_requests)]
    context_lens = [b % 3 for b in range(num_requests)]
    actual = step(context_lens, query_lens, sum(query_lens))
    assert actual == by_hand(context_lens, query_lens, sum(query_lens))


@pytest.mark.skipif(DEVICE == "cpu", reason="graphs need a GPU")
@pytest.mark.parametrize("num_requests", [64, 5000])
def test_a_captured_launch_waits_for_the_one_before_it(num_requests: int) -> None:
    """From Hopper on it begins early: its inputs are written by the kernel before it, and read behind it."""
    lens = torch.zeros((2, num_requests), dtype=torch.int32, device=DEVICE)
    drawn = torch.zeros((2, num_requests), dtype=torch.int32, device=DEVICE)
    slow = torch.zeros(2**24, device=DEVICE)
    num_tokens_padded = 3 * num_requests
    outputs = outputs_of(num_requests, num_tokens_padded)
    kept = {name: torch.empty_like(output) for name, output in outputs.items()}
    table = torch.arange(num_requests, dtype=torch.int32, device=DEVICE)[:, None] * 100
    table = table + torch.arange(80, dtype=torch.int32, device=DEVICE)
    is_prefill = torch.ones(num_requests, dtype=torch.bool, device=DEVICE)
    arguments: dict[str, Any] = NEUTRAL | {"block_size": 4, "kernel_block_size": 4}
    arguments |= {"is_prefill": is_prefill, "block_table": table}
    arguments |= {"context_lens": lens[0], "query_lens": lens[1]}

    def run() -> None:
        for _ in range(3):
            slow.add_(1)
            torch.mul(drawn, 1, out=lens)
            gpu_impl.write_step_metadata(**arguments, **outputs)
            for name, output in outputs.items():
                torch.mul(output, 1, out=kept[name])
            lens.fill_(-5)

    run()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    generator = torch.Generator().manual_seed(0)
    for _ in range(8):
        contexts, queries = torch.randint(0, 3, (2, num_requests), generator=generator).tolist()
        drawn.copy_(torch.tensor([contexts, queries], dtype=torch.int32))
        for output in outputs.values():
            output.fill_(77)
        graph.replay()
        assert {name: output.tolist() for name, output in kept.items()} == by_hand(
            contexts, queries, num_tokens_padded
        )

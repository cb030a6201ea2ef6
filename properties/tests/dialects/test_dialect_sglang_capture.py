"""Steps of SGLang, from their tensors back to cases."""

from typing import Any

import numpy as np
import pytest
import torch

from cumae.oracle import Case, Inputs
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.seeded import seeded_cases
from cumae.properties.dialects import SGLANG, Ints
from cumae.properties.dialects.dump import case_from_tensors
from cumae.properties.dialects.sglang.step import forward_mode
from cumae.properties.tests.given.sglang_steps import MIXED


def tensors(case: Case, as_list: bool) -> dict[str, Any]:
    """Return what a dump of a step holds: every input that its mode has."""
    mode = forward_mode(case.batch)
    names = ["req_pool_indices", "req_to_token", "page_size", "forward_mode", "seq_lens"]
    names += {"extend": ["extend_seq_lens"], "verify": ["draft_token_num"], "decode": []}[mode]
    found: dict[str, Any] = {}
    for name in names:
        held = SGLANG.inputs[name].hold(Inputs(case))
        found[name] = held
        if isinstance(held, Ints) and as_list:
            found[name] = held.values.tolist() if len(case.batch.requests) % 2 else held.values
        elif isinstance(held, Ints):
            found[name] = torch.from_numpy(held.values).to(getattr(torch, held.dtype))
    return found


def test_two_hundred_cases_come_back_as_they_were() -> None:
    domain, modes, seen = Domain(reserved_blocks=1, max_requests=40), set(), 0
    for case in seeded_cases(11, domain, ("row_index",)):
        if -1 in (case.layout.row_index or ()):
            continue
        back = case_from_tensors("sglang", **tensors(case, bool(seen % 2)))
        mode = forward_mode(case.batch)
        assert len(back.batch.requests) == len(case.batch.requests)
        assert back.layout.num_padding_requests == case.layout.num_padding_requests
        for request, found in zip(case.batch.requests, back.batch.requests, strict=True):
            assert (found.context_len, found.query_len) == (request.context_len, request.query_len)
            assert found.block_ids == request.block_ids[: case.batch.num_live_blocks(request)]
            assert found.phase == ("prefill" if mode == "extend" else "decode")
        modes.add(mode)
        seen += 1
        if seen == 200:
            break
    assert modes == {"extend", "decode", "verify"}


def test_a_mixed_batch_keeps_the_phases_it_is_told() -> None:
    dump = tensors(MIXED, as_list=False) | {"is_prefill": [True, True, False], "num_tokens_padded": 5}
    back = case_from_tensors("sglang", **dump)
    assert [request.phase for request in back.batch.requests] == ["prefill", "prefill", "decode"]
    assert back.num_tokens_padded == 5


POOL = [[0, 0, 0], [8, 9, 4]]


@pytest.mark.parametrize(
    ("dump", "rule"),
    [
        ({"forward_mode": "prebuilt"}, r"forward_mode = 'prebuilt', must be one of 'extend', 'mixed', "),
        ({"forward_mode": 6}, r"forward_mode = 6, must be one of 'extend', 'mixed', "),
        (
            {"seq_lens": None},
            r"seq_lens = None, must be given: a step of sglang with forward_mode decode needs",
        ),
        ({"seq_lens": [1]}, r"seq_lens\[0\] = 1, must be >= 2"),
        ({"seq_lens": [4]}, r"req_to_token\[1\]: number of columns = 3, must be >= 4"),
        ({"req_pool_indices": [2]}, r"req_pool_indices = 2, must be < 2, the rows of req_to_token"),
        ({"req_pool_indices": [1.5]}, r"req_pool_indices\[0\] = 1.5, must be an integer"),
        (
            {"req_pool_indices": [0, 1], "seq_lens": [1, 3]},
            r"req_pool_indices\[0\] = 0, must be >= 1: a live request follows",
        ),
        ({"req_to_token": [[0] * 3, [8, 8, 4]]}, r"req_to_token\[1\]\[1\] = 8, must be 9: the page co"),
        ({"req_to_token": [[0] * 3, [7, 8, 4]]}, r"req_to_token\[1\]\[0\] = 7, must be a multiple of page_s"),
        ({"req_to_token": [[0] * 3, [0, 1, 4]]}, r"req_to_token\[1\]\[0\] = 0, must be >= 2: page 0 is"),
        ({"forward_mode": "verify"}, r"draft_token_num = None, must be given: a step of"),
        ({"forward_mode": "extend"}, r"extend_seq_lens = None, must be given: a step of"),
        (
            {"forward_mode": "extend", "extend_seq_lens": [2], "extend_prefix_lens": [2]},
            r"seq_lens\[0\] = 3, must be 2 \+ 2 = extend_prefix_lens \+ extend_seq_lens",
        ),
        ({"slots": [1]}, r"tensor = 'slots', must be a tensor that sglang reads: req_pool_indices"),
    ],
)
def test_a_dump_that_cannot_be_a_step_is_refused(dump: dict[str, Any], rule: str) -> None:
    good = {"req_pool_indices": [1], "req_to_token": POOL, "page_size": 2, "forward_mode": "decode"}
    good["seq_lens"] = np.array([3])
    assert case_from_tensors("sglang", **good).batch.requests[0].block_ids == (4, 2)
    with pytest.raises(ValueError, match=rule):
        case_from_tensors("sglang", **(good | dump))

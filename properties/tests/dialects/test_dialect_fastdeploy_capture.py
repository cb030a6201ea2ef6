"""Tensors of FastDeploy give their step back, or are refused."""

import re
from typing import Any

import pytest

from cumae.properties.cases.seeded import seeded_case
from cumae.properties.dialects import FASTDEPLOY
from cumae.properties.dialects.dump import case_from_tensors
from cumae.properties.tests.helpers.dumped import dumped, said

CAPTURED = ("seq_lens_encoder", "seq_lens_decoder", "seq_lens_this_time", "block_tables", "block_size")


@pytest.mark.parametrize("part", range(4))
def test_tensors_of_a_case_give_it_back(part: int) -> None:
    for number in range(50 * part, 50 * part + 50):
        case = seeded_case(number, features=())
        tensors = dumped(FASTDEPLOY, case, (*CAPTURED, "real_bsz"), number)
        back = case_from_tensors("fastdeploy", **tensors, num_tokens_padded=case.num_tokens_padded)
        assert said(back) == said(case)
        assert back.batch.block_size == case.batch.block_size
        tokens = ("seq_lens_encoder", "seq_lens_this_time", "cu_seqlens_k", "batch_id_per_token")
        assert dumped(FASTDEPLOY, back, tokens, 2) == dumped(FASTDEPLOY, case, tokens, 2)


GOOD: dict[str, Any] = {
    "seq_lens_encoder": [[2], [0]],
    "seq_lens_decoder": [[3], [6]],
    "seq_lens_this_time": [2, 1],
    "block_tables": [[5, 2], [7, 3]],
    "block_size": 4,
}


def test_encoder_tokens_make_a_prefill() -> None:
    case = case_from_tensors("fastdeploy", **GOOD)
    assert said(case) == [(3, 2, (5, 2), "prefill"), (6, 1, (7, 3), "decode")]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"block_tables": None}, "block_tables = None, must be given"),
        ({"cu_seqlens_q": [0]}, "tensor = 'cu_seqlens_q', must be a tensor that fastdeploy reads"),
        ({"seq_lens_decoder": [[3]]}, "seq_lens_decoder: number = 1, must be >= 2"),
        ({"seq_lens_decoder": [[3], [-6]]}, "seq_lens_decoder[1] = -6, must be >= 0"),
        ({"seq_lens_decoder": [[3, 6]]}, "seq_lens_decoder[0] = [3, 6], must be an integer"),
        ({"seq_lens_encoder": [[4], [0]]}, "seq_lens_encoder[0] = 4, must be 0 or this_time = 2"),
        ({"seq_lens_decoder": [[3], [0]]}, "requests[1].context_len = 0, must be >= 1 for a decode"),
        ({"block_tables": [[5], [7]]}, "block_tables[0]: number of columns = 1, must be >= 2"),
        ({"block_tables": [[5, 2]]}, "block_tables: number of rows = 1, must be >= 2"),
        ({"block_tables": [[5, 2], [5, 3]]}, "requests[0].block_ids[0] = 5, must not be written"),
        ({"block_size": True}, "block_size = True, must be an integer"),
        ({"real_bsz": 1}, "seq_lens_this_time[1] = 1, must be 0: padding"),
        ({"num_tokens_padded": 2}, "num_tokens_padded = 2, must be >= 3"),
    ],
)
def test_tensors_that_are_no_step_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        case_from_tensors("fastdeploy", **(GOOD | change))

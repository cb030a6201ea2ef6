"""LightLLM's adapters, and the steps and names that several of them promise.

LightLLM has a slot for each token in rows of a pool, as SGLang has; it is released as a checkout. The
versions are commits of the files; that of `copy_kv_index_to_req.py` and of `fa3_utils.py` is not known.
"""

from itertools import accumulate
from typing import Any

import numpy as np

from cumae.oracle import Case
from cumae.properties.cases.domain import Domain
from cumae.properties.dialects import SGLANG
from cumae.properties.engines.adapter import Engine

ENGINE = Engine(
    "lightllm", "sglang", ("61ea3215", "e023d034", "15f3a5c3", "1694338f", "05936590", "0dfd8ef4")
)
STEPS = Domain(
    min_requests=1,
    max_requests=1024,
    min_tokens=1,
    rowless_requests=False,
    missing_blocks=False,
    padding="none",
    strided=False,
    large_slots=False,
    captured=False,
)
PREFILLS = STEPS.having(phases=("prefill",))
DECODES = STEPS.having(phases=("decode",), max_query_len=1, empty_requests=False)
"""No request is padded: LightLLM gives padded ones the pool's last row and slot."""
MANY = {"max_requests": 8192}
"""For running sums, which loop over tiles of 1,024 requests."""


def int32(values: list[int]) -> Any:
    """Return an array in the width of LightLLM's lengths."""
    return np.array(values, dtype=np.int32)


def seq_lens(case: Case) -> Any:
    """Return the length of each request after the step."""
    return int32([request.seq_len for request in case.batch.requests])


def first_rows(case: Case, of: str = "query_len") -> list[int]:
    """Return the first row of each request, among new tokens or among those of another length."""
    lens = [getattr(request, of) for request in case.batch.requests]
    return [0, *accumulate(lens)][:-1]


def _ready_lens(case: Case) -> Any:
    return int32([request.context_len for request in case.batch.requests])


NAMES = SGLANG.extend(
    b_seq_len=seq_lens,
    b_ready_cache_len=_ready_lens,
    b_start_loc=lambda case: int32(first_rows(case)),
    input_token_num=lambda case: case.batch.num_tokens,
    max_q_seq_len=lambda case: max(request.query_len for request in case.batch.requests),
    req_to_token_indexs="req_to_token",
    b_req_idx="req_pool_indices",
)

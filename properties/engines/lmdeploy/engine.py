"""LMDeploy's adapters, and the steps and names that several of them promise."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from cumae.oracle import Case
from cumae.properties.cases.domain import Domain
from cumae.properties.dialects import CUMAE
from cumae.properties.engines.adapter import Engine

ENGINE = Engine("lmdeploy", "cumae", ("0.18.0",))
STEPS = Domain(
    min_requests=1,
    max_requests=1024,
    min_tokens=1,
    empty_requests=False,
    rowless_requests=False,
    missing_blocks=False,
    padding="none",
    strided=False,
    large_slots=False,
    index_dtype=("int64",),
    captured=False,
)
"""Each sequence of a step has a new token, and lengths are int64; other functions pad a captured step."""


def longest_query(case: Case) -> int:
    """Return the most new tokens of a sequence."""
    return max(request.query_len for request in case.batch.requests)


def first_rows(case: Case) -> Any:
    """Return the first row of each sequence."""
    lens = [request.query_len for request in case.batch.requests]
    return np.cumsum([0, *lens], dtype=np.int64)[:-1]


NAMES = CUMAE.extend(q_start_loc=first_rows, max_q_seqlen=longest_query)
POLICY = SimpleNamespace(NONE=0, INT4=4, INT8=8, FP8=16, FP8_E5M2=17, TURBO_QUANT=42)
"""LMDeploy's QuantPolicy, which adapted functions name."""

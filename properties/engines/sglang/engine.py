"""SGLang's adapters, and the steps and names that several of them promise."""

from typing import Any

import numpy as np

from cumae.oracle import Case
from cumae.properties.cases.domain import Domain
from cumae.properties.engines.adapter import Engine

ENGINE = Engine("sglang", "sglang", ("0.5.23",))
STEPS = Domain(
    min_requests=1, min_tokens=1, max_requests=1024, strided=False, large_slots=False, captured=False
)
EXTENDS = STEPS.having(phases=("prefill",), padding="none")
DECODES = STEPS.having(phases=("decode",), max_query_len=1, empty_requests=False)


def starts(case: Case) -> Any:
    """Return the first new position of each request."""
    return np.array([request.context_len for request in case.batch.requests], dtype=np.int64)


def stops(case: Case) -> Any:
    """Return the end of the new positions of each request."""
    return np.array([request.seq_len for request in case.batch.requests], dtype=np.int64)

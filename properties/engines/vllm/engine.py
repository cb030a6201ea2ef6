"""vLLM's adapters, and the steps and names that several of them promise."""

from typing import Any

import numpy as np

from cumae.oracle import Case
from cumae.properties.cases.domain import Domain
from cumae.properties.dialects import VLLM
from cumae.properties.engines.adapter import Engine

ENGINE = Engine("vllm", "vllm", ("0.33.0",))
STEPS = Domain(min_requests=1, max_requests=1024, strided=False, captured=False)
SMALL = STEPS.having(large_slots=False)
UNPADDED = STEPS.having(padding="none")
NEW = SMALL.having(padding="none", min_tokens=1)


def _rows(case: Case) -> Any:
    """Return the state row of each request: the table's rows are in the requests' order."""
    return np.arange(len(case.batch.requests), dtype=np.int32)


STARTS = VLLM.extend(starts="query_start_loc")
V2 = STARTS.extend(idx_mapping=_rows)
SELECTED = SMALL.having(min_tokens=1)

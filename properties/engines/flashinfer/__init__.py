"""FlashInfer's metadata functions, by subject; decode graphs under SGLang's names."""

from cumae.properties.engines.flashinfer import (
    decode_graphs,
    paged,
    query_schedule,
    request_ids,
    selected_groups,
)
from cumae.properties.engines.flashinfer.engine import ENGINE

__all__ = ["ENGINE", "decode_graphs", "paged", "query_schedule", "request_ids", "selected_groups"]

"""DeepSeek V4: the rows of a gathered workspace that each token of a prefill reads."""

from collections.abc import Callable
from typing import Any

import torch

from cumae.properties.dialects import SGLANG
from cumae.properties.engines.sglang.engine import ENGINE, EXTENDS
from cumae.properties.engines.workspaces import Chunk, in_chunks, with_workspaces


@ENGINE.adapts(
    "sglang/kernels/ops/attention/dsv4/sparse_prefill_kernels.py",
    "combine_topk_swa_indices",
    operation="window_slots",
    dialect=with_workspaces(SGLANG, holes=True),
    domain=EXTENDS.having(window=(1, 2, 3, 4, 16, 127, 128), strided=True, views=("combined_rows",)),
)
def combined_rows(function: Any) -> Callable[..., None]:
    """DeepSeek V4: selected states and windows of a chunk of prefills, two tokens a program."""

    def run(c: Chunk) -> None:
        counted = torch.arange(len(c.seq_lens), dtype=torch.int32, device=c.seq_lens.device)
        states = counted * c.request_rows
        requests = (c.starts, c.places, c.seq_lens, c.gathered_lens, states, states + c.state_rows)
        out = (c.combined_rows, c.combined_lens)
        function(c.selected_states, *requests, c.window, c.ratio, c.num_selected, *out)

    return in_chunks(run)

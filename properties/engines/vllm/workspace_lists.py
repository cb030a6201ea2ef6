"""DeepSeek V4: the rows of a gathered workspace that each token of a prefill reads."""

from collections.abc import Callable
from typing import Any

from cumae.properties.dialects import VLLM
from cumae.properties.engines.vllm.engine import ENGINE, NEW
from cumae.properties.engines.workspaces import Chunk, in_chunks, with_workspaces

_PREFILLS = NEW.having(window=(1, 2, 4, 16, 128), missing_blocks=False, max_requests=64)
_NO_HOLES, _HOLES = (with_workspaces(VLLM, holes=holes) for holes in (False, True))


def _by_kernel(kind: Callable[[], Any]) -> Callable[..., None]:
    kernel = kind()

    def run(c: Chunk) -> None:
        c.combined_rows.fill_(-1)  # as the function around the kernel does
        lists = (c.combined_rows, c.combined_lens, c.selected_states)
        requests = (c.starts, c.seq_lens, c.gathered_lens, c.request_rows, c.state_rows)
        kernel(*lists, *requests, TOP_K=c.num_selected, COMPRESS_RATIO=c.ratio, WINDOW_SIZE=c.window)

    return in_chunks(run)


@ENGINE.adapts(
    "vllm/models/deepseek_v4/common/ops/cache_utils.py",
    "CombineTopkSwaIndicesKernel",
    operation="window_slots",
    dialect=_NO_HOLES,
    domain=_PREFILLS.having(strided=True, views=("combined_rows", "selected_states")),
)
def combined_rows(kind: Callable[[], Any]) -> Callable[..., None]:
    """DeepSeek V4: selected states and windows of a chunk of prefills."""
    return _by_kernel(kind)


@ENGINE.adapts(
    "vllm/models/deepseek_v41/common/ops/cache_utils.py",
    "CombineTopkSwaIndicesKernel",
    operation="window_slots",
    dialect=_HOLES,
    domain=_PREFILLS.having(strided=True, views=("combined_rows", "selected_states")),
)
def combined_rows_with_holes(kind: Callable[[], Any]) -> Callable[..., None]:
    """DeepSeek V4.1: the same, where a selected state may be -1."""
    return _by_kernel(kind)


@ENGINE.adapts(
    "vllm/models/deepseek_v4/amd/rocm.py",
    "combine_topk_swa_indices",
    operation="window_slots",
    dialect=_HOLES,
    domain=_PREFILLS.having(window=(1, 2, 3, 4, 16, 127, 128)),
)
def combined_rows_on_amd(function: Any) -> Callable[..., None]:
    """DeepSeek V4 on AMD: the same for windows of any length."""

    def run(c: Chunk) -> None:
        requests = (c.starts, c.seq_lens, c.gathered_lens)
        numbers = (c.window, c.ratio, c.num_selected, c.request_rows, c.state_rows)
        rows, lens = function(c.selected_states, *requests, *numbers)
        c.combined_rows.copy_(rows)
        c.combined_lens.copy_(lens)

    return in_chunks(run)

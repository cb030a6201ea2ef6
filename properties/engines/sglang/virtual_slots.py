"""Slots through a map: virtual slots of a unified pool, and rows of a sparse cache."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch

from cumae.oracle import Case, Inputs
from cumae.properties.dialects import SGLANG, Output
from cumae.properties.dialects.sglang.pages import DUMP_SLOT
from cumae.properties.dialects.sglang.step import num_rows
from cumae.properties.engines.pages import having
from cumae.properties.engines.sglang.engine import ENGINE, STEPS
from cumae.properties.engines.sglang.mapped_tables import MAPPED, physical

Tensor = torch.Tensor
SHIFT = 3


def physical_of(slots: Iterable[int], case: Case) -> list[int]:
    """Return the slots in the physical pages, 0 for pages that are bound to none."""
    size, pages = case.batch.block_size, physical(case, SHIFT)
    return [max(pages[slot // size] * size + slot % size, 0) for slot in slots]


def map_of_pages(case: Case) -> Any:
    """Return the physical page of each virtual one, -1 for none."""
    return np.array(physical(case, SHIFT), dtype=np.int64)


def _physical_slots(answer: Any, inputs: Inputs) -> list[int]:
    """Return the physical slot of each new token, the dump slot on padding."""
    case, live = inputs.case, answer.slot_mapping[: inputs.case.batch.num_tokens]
    found = physical_of([max(slot, 0) for slot in live], case)
    return found + [DUMP_SLOT] * (num_rows(case) - len(found))


_TRANSLATED = having(
    SGLANG.extend(v2p=map_of_pages),
    "slot_mapping",
    Output(
        "physical_slots",
        "int64",
        "mapped_token",
        "the token's slot in the physical page",
        follows="slot_mapping",
        shape=lambda case: (num_rows(case),),
        expect=_physical_slots,
    ),
)
_VIRTUAL = "sglang/kernels/ops/memory/virtual_slot.py"


@ENGINE.adapts(
    _VIRTUAL,
    "translate_token_ids_kernel",
    operation="slot_mapping",
    dialect=_TRANSLATED,
    domain=STEPS.having(**MAPPED),
)
def translated_slots(kernel: Any) -> Callable[..., None]:
    """Physical slots of a step, and 0 up to the end of a buffer of a captured step."""

    def launch(
        raw_out_loc: Tensor, v2p: Tensor, page_size: int, num_token_non_padded: int, physical_slots: Tensor
    ) -> None:
        counts = (num_token_non_padded, len(physical_slots), len(v2p))
        sizes = {"PAGE_SIZE": page_size, "DCP_SIZE": 1, "DCP_RANK": 0, "STRIDED": False, "BLOCK": 512}
        grid = (-(-len(physical_slots) // 512),)
        kernel[grid](raw_out_loc, v2p, physical_slots, *counts, 1, 1, 1, 1, 1, **sizes)

    return launch


@ENGINE.adapts(
    _VIRTUAL,
    "translate_token_ids",
    operation="slot_mapping",
    dialect=_TRANSLATED,
    domain=STEPS.having(**MAPPED),
)
def translated_slots_by_launcher(function: Any) -> Callable[..., None]:
    """The same by the kernel's launcher."""

    def launch(
        raw_out_loc: Tensor, v2p: Tensor, page_size: int, num_token_non_padded: int, physical_slots: Tensor
    ) -> None:
        live = raw_out_loc[:num_token_non_padded]
        more = {"out": physical_slots, "out_width": len(physical_slots)}
        function(loc=live, v2p=v2p, page_size=page_size, **more)

    return launch


def _slots_of_rank(answer: Any, inputs: Inputs) -> list[int]:
    """Return the physical slot of each new token on rank 1 of two; 0 for tokens of the other rank."""
    case = inputs.case
    live = [max(slot, 0) for slot in answer.slot_mapping[: case.batch.num_tokens]]
    rows = physical_of([slot // 2 for slot in live], case)
    found = [row if slot % 2 == 1 else DUMP_SLOT for slot, row in zip(live, rows, strict=True)]
    return found + [DUMP_SLOT] * (num_rows(case) - len(found))


@ENGINE.adapts(
    _VIRTUAL,
    "translate_token_ids_kernel",
    operation="slot_mapping",
    dialect=having(
        SGLANG.extend(v2p=map_of_pages),
        "slot_mapping",
        Output(
            "slots_of_rank",
            "int64",
            "mapped_token",
            "the token's slot on rank 1 of two, which owns odd slots",
            follows="slot_mapping",
            shape=lambda case: (num_rows(case),),
            expect=_slots_of_rank,
        ),
    ),
    domain=STEPS.having(**MAPPED),
)
def translated_slots_of_rank(kernel: Any) -> Callable[..., None]:
    """Physical slots of a context-parallel rank, from rows of two columns that lie apart."""

    def launch(raw_out_loc: Tensor, v2p: Tensor, page_size: int, slots_of_rank: Tensor) -> None:
        count = len(raw_out_loc)
        apart = torch.full((count, 3), -1, dtype=torch.int64, device=raw_out_loc.device)
        apart[:, 1] = raw_out_loc
        out = torch.empty((count, 2), dtype=torch.int64, device=raw_out_loc.device)
        sizes = {"PAGE_SIZE": page_size, "DCP_SIZE": 2, "DCP_RANK": 1, "STRIDED": True, "BLOCK": 512}
        strides = (2, 3, 1, 2, 1)
        view = apart[:, 1:]
        kernel[(-(-2 * count // 512),)](view, v2p, out, 2 * count, 2 * count, len(v2p), *strides, **sizes)
        slots_of_rank.copy_(out[:, 0])

    return launch


def _padded_slots(case: Case) -> Any:
    slots = Inputs(case)["slot_mapping"][: case.batch.num_tokens]
    return np.array(slots + [-1] * (num_rows(case) - len(slots)), dtype=np.int64)


def _rows_of_slots(_: Any, inputs: Inputs) -> list[int]:
    case = inputs.case
    pool = case.num_cache_blocks * case.batch.block_size
    return [pool - slot if slot >= 0 else -1 for slot in _padded_slots(case).tolist()]


@ENGINE.adapts(
    "sglang/kernels/ops/kvcache/hisparse_slot_mapping.py",
    "translate_padded_hisparse_locations",
    operation="slot_mapping",
    dialect=having(
        SGLANG.extend(padded_slots=_padded_slots),
        "slot_mapping",
        Output(
            "rows_of_slots",
            "int64",
            "mapped_token",
            "the row of the token's slot, -1 on padding",
            follows="slot_mapping",
            shape=lambda case: (num_rows(case),),
            expect=_rows_of_slots,
        ),
    ),
    domain=STEPS.having(**MAPPED),
)
def hisparse_rows(function: Any) -> Callable[..., dict[str, Tensor]]:
    """Rows of a sparse cache on the device; every second entry of a strided list is read."""

    def launch(padded_slots: Tensor, full_to_swa_mapping: Tensor) -> dict[str, Tensor]:
        apart = padded_slots.repeat_interleave(2)
        apart[1::2] = 10**9
        return {"rows_of_slots": function(full_to_swa_mapping, apart[::2])}

    return launch

"""A kernel that writes the arguments of the next launch late, and lets that launch begin at once."""

import torch
import triton
import triton.language as tl

NANOSECONDS = 1_000_000
"""How long the kernel waits before it writes. A function that launches later shows nothing."""
TILE = 4096


@triton.jit(do_not_specialize=["num_bytes"])  # type: ignore[untyped-decorator,unused-ignore]
def _write_late(memory, content, num_bytes, nanoseconds, TILE: tl.constexpr):  # type: ignore[no-untyped-def]
    tl.extra.cuda.gdc_launch_dependents()
    begun = tl.extra.cuda.globaltimer()
    now = begun
    while now - begun < nanoseconds:
        now = tl.extra.cuda.globaltimer()
    o_byte = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    m_byte = o_byte < num_bytes
    tl.store(memory + o_byte, tl.load(content + o_byte, mask=m_byte, other=0), mask=m_byte)


def write_late(memory: torch.Tensor, content: torch.Tensor) -> None:
    """Launch a kernel that copies bytes, uint8 of one size on a GPU, after a millisecond.

    A kernel that is launched behind it with programmatic dependent launch begins before the copy, if it has
    room beside it, and ends after the copy only if it waits.
    """
    num_programs = -(-memory.numel() // TILE)
    _write_late[(num_programs,)](memory, content, memory.numel(), NANOSECONDS, TILE=TILE)

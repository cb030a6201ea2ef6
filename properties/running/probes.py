"""Probes of what this machine can run; each one runs in an isolated process."""

import sys

import triton
import triton.language as tl


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _double(values, doubled, num_values, TILE: tl.constexpr):  # type: ignore[no-untyped-def]
    o_value = tl.program_id(0) * TILE + tl.arange(0, TILE)
    m_value = o_value < num_values
    tl.store(doubled + o_value, tl.load(values + o_value, mask=m_value, other=0) * 2, mask=m_value)


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _faulty(values, answer, num_values) -> None:  # type: ignore[no-untyped-def]
    i_program = tl.program_id(0)
    behind = tl.load(values + num_values)
    tl.store(values + num_values + 1, behind)
    tl.atomic_add(values + num_values + 2, 1)
    tl.atomic_cas(values + num_values + 3, 0, 1)
    tl.store(answer + 1, tl.load(answer + i_program) * 0 + i_program)
    tl.device_assert(tl.load(values + 4) * 1073741824 < i_program, "planted")


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _faultless(values, addresses, answer, factor: tl.int64):  # type: ignore[no-untyped-def]
    o_value = tl.arange(0, 2)
    tl.store(answer + o_value, 1, mask=(o_value < 2) & (tl.load(values) == 0))
    elsewhere = tl.load(addresses).to(tl.pointer_type(tl.int32))
    tl.store(answer + 2, tl.load(elsewhere + 1))
    tl.store(answer + 3, factor * 65536)


def launch(device: str) -> None:
    """Run a tiny kernel on a device. Raises Triton's errors, and ``RuntimeError`` for a wrong answer."""
    import torch

    values = torch.arange(5, dtype=torch.int32, device=device)
    doubled = torch.zeros_like(values)
    _double[(1,)](values, doubled, 5, TILE=8)
    if doubled.tolist() != [0, 2, 4, 6, 8]:
        raise RuntimeError(f"a tiny kernel returned {doubled.tolist()}")


def hooks() -> None:
    """Run a kernel with a fault for every hook, and a correct one.

    Raises ``RuntimeError`` for a missed fault and for a false positive.
    """
    import torch

    from cumae.properties.interpreter.hooks import watching
    from cumae.properties.interpreter.region import Region

    # The memory behind the five values is ours too, so a stray access that a hook misses does no harm.
    values, answer = torch.arange(9, dtype=torch.int32)[:5], torch.zeros(2, dtype=torch.int32)
    start = answer.data_ptr()
    with watching(races=True, overflow=True) as watch:
        watch.follow(0, lambda: [Region("answer", start, start + 8, 4)])
        _faulty[(2,)](values, answer, 5)
    told = " ".join(watch.asserted)
    seen = {access.kind for access in watch.outside}
    seen |= {name for name in ("planted", "overflow") if name in told}
    seen |= {"garbage"} if watch.garbage else set()
    seen |= {"race"} if watch.races else set()
    silent = {"load", "store", "atomic", "exchange", "planted", "overflow", "garbage", "race"} - seen
    if silent:
        raise RuntimeError(f"the hooks miss planted faults: {', '.join(sorted(silent))}")
    elsewhere, wide = torch.arange(2, dtype=torch.int32), torch.zeros(4, dtype=torch.int64)
    with watching(overflow=True) as watch:
        _faultless[(1,)](values, torch.tensor([elsewhere.data_ptr()]), wide, 65536)
    wrong = [*map(str, watch.outside), *watch.asserted]
    if wrong or wide.tolist() != [1, 1, 1, 2**32]:
        raise RuntimeError(f"a kernel without a fault stored {wide.tolist()}: {', '.join(wrong)}")


def compiles() -> None:
    """Compile a tiny kernel ahead of time for sm_90."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    signature = {"values": "*i32", "doubled": "*i32", "num_values": "i32", "TILE": "constexpr"}
    triton.compile(ASTSource(_double, signature, {"TILE": 8}), target=GPUTarget("cuda", 90, 32))


PROBES = {
    "interpreter": lambda: launch("cpu"),
    "hooks": hooks,
    "gpu": lambda: launch("cuda"),
    "compiles": compiles,
}


def main() -> None:
    """Run the named probe; an error becomes one line and exit status 1."""
    try:
        PROBES[sys.argv[1]]()
    except Exception as error:
        sys.exit(f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")


if __name__ == "__main__":
    main()

"""What this machine can run, tried for real: each probe runs in a process of its own."""

import sys

import triton
import triton.language as tl


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _double(values, doubled, num_values, TILE: tl.constexpr):  # type: ignore[no-untyped-def]
    o_value = tl.program_id(0) * TILE + tl.arange(0, TILE)
    m_value = o_value < num_values
    tl.store(doubled + o_value, tl.load(values + o_value, mask=m_value, other=0) * 2, mask=m_value)


def launch(device: str) -> None:
    """Run a tiny kernel on a device. Raises what Triton raises, ``RuntimeError`` for a wrong answer."""
    import torch

    values = torch.arange(5, dtype=torch.int32, device=device)
    doubled = torch.zeros_like(values)
    _double[(1,)](values, doubled, 5, TILE=8)
    if doubled.tolist() != [0, 2, 4, 6, 8]:
        raise RuntimeError(f"a tiny kernel returned {doubled.tolist()}")


def hooks() -> None:
    """Run a tiny kernel under the bounds guard. Raises ``RuntimeError`` where a hook is missing."""
    from cumae.properties.running.interpreter import watching

    with watching() as watch:
        launch("cpu")
    if not watch.num_accesses:
        raise RuntimeError("the bounds guard saw no access")


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
    """Run the probe that is named; what it raises is one line and exit status 1."""
    try:
        PROBES[sys.argv[1]]()
    except Exception as error:
        sys.exit(f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")


if __name__ == "__main__":
    main()

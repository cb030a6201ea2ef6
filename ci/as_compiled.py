"""Compare Triton's interpreter, as cumae runs it, with compiled code: as_compiled.py OUT [--processes N].

Kernels of expressions run on a GPU, and in other processes interpreted. The file says how many expressions
give the same type and bits, and which do not.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from cumae.properties.interpreter.hooks import watching
from cumae.properties.running.device import prepare
from cumae.properties.running.machine import measured
from cumae.properties.selfcheck.expressions import NAMES, N, expressions, kernel_of, operands, source
from cumae.properties.selfcheck.record import write_record


def calculated(job: tuple[str, int]) -> tuple[int, list[Any]]:
    """Return what the kernel of an expression stores, and the number of its type, or the error."""
    file, i = job
    one, device = expressions()[i], "cpu" if os.environ.get("TRITON_INTERPRET") == "1" else "cuda"
    given = [operand.to(device) for operand in operands(one)]
    out = torch.full((2 * N,), -77, dtype=torch.int64, device=device)
    code = torch.full((1,), -1, dtype=torch.int32, device=device)
    kernel = getattr(loaded(file), kernel_of(one))[(1 if one.of_blocks else N,)]
    try:
        if device == "cpu":
            with watching():
                kernel(*given, out, code, N=N)
        else:
            kernel(*given, out, code, N=N)
            torch.cuda.synchronize()
    except Exception as error:  # what a kernel or the compiler may raise
        return i, [type(error).__name__]
    return i, [int(code), out.tolist()]


@cache
def loaded(file: str) -> Any:
    """Return the module of the kernels."""
    spec = spec_from_file_location("kernels_as_compiled", file)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def leg(file: Path, processes: int) -> list[list[Any]]:
    """Return the answers to all expressions, from as many processes."""
    jobs = [(str(file), i) for i in range(len(expressions()))]
    with get_context("spawn").Pool(processes) as pool:
        return [answer for _, answer in sorted(pool.imap_unordered(calculated, jobs, chunksize=16))]


def outcome(compiled: list[Any], interpreted: list[Any]) -> str:
    """Return how two answers compare."""
    if len(compiled) == 1 or len(interpreted) == 1:
        if len(compiled) == len(interpreted):
            return "neither runs"
        return "is not compiled" if len(compiled) == 1 else "is not interpreted"
    if compiled[0] != interpreted[0]:
        return f"is {NAMES[compiled[0]]} if compiled, else {NAMES[interpreted[0]]}"
    return "same" if compiled[1] == interpreted[1] else "other numbers"


def main() -> None:
    """Calculate both ways, and write how they compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--interpreted", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.interpreted is not None:
        asked.out.write_text(json.dumps(leg(asked.interpreted, asked.processes)))
        return
    if prepare("auto") != "cuda":
        parser.error("kernels are compiled for a GPU, and there is none")
    with tempfile.TemporaryDirectory() as folder:
        file, answers = Path(folder) / "kernels.py", Path(folder) / "interpreted.json"
        file.write_text(source())
        command = [sys.executable, __file__, str(answers), "--processes", str(asked.processes)]
        interpreting = {**os.environ, "TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}
        subprocess.run([*command, "--interpreted", str(file)], env=interpreting, check=True)
        interpreted = json.loads(answers.read_text())
        compiled = leg(file, asked.processes)
    rows = list(zip(expressions(), map(outcome, compiled, interpreted), strict=True))
    counts = Counter(how for _, how in rows)
    others = [f"{one.told()}: {how}" for one, how in rows if how not in ("same", "neither runs")]
    print(*others, dict(counts), sep="\n")
    found = {"expressions": len(rows), "same": counts["same"], "neither runs": counts["neither runs"]}
    command_line = "ci/as_compiled.py ci/results/gpu-as-compiled.json"
    write_record(asked.out, measured(command_line, **found, others=others))


if __name__ == "__main__":
    main()

"""Run one probe of this machine in an isolated process."""

import os
import subprocess
import sys

PROBE_SECONDS = 120


def fault_of(name: str) -> str:
    """Return the error of a probe of ``running.probes`` in one line; empty if it passed."""
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    if name in ("interpreter", "hooks"):
        environment |= {"TRITON_INTERPRET": "1", "TRITON_DEFAULT_FP_FUSION": "1"}
    command = [sys.executable, "-m", "cumae.properties.running.probes", name]
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=PROBE_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {PROBE_SECONDS} s"
    if done.returncode == 0:
        return ""
    lines = done.stderr.strip().splitlines()
    return lines[-1] if lines else f"ended with exit status {done.returncode}"

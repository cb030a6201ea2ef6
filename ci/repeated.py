"""Run ``cumae fuzz`` many times, each with its own seed; a run that disagrees is a flake."""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cumae.properties.selfcheck.record import write_record

parser = argparse.ArgumentParser(description=__doc__)
for name, default in (("runs", 50), ("cases", 40), ("jobs", 2)):  # cases of each kernel in each run
    parser.add_argument(f"--{name}", type=int, default=default)
parser.add_argument("--out", type=Path, help="write the figures here as JSON")
given, kept, began = parser.parse_args(), Path(tempfile.mkdtemp()), time.monotonic()


def run(seed: int) -> int:
    """Return the exit status of one run; print its report if that is not 0."""
    own = kept / str(seed)
    options = f"--seed {seed} --cases {given.cases} --failures {own} --json {own}.json".split()
    done = subprocess.run([sys.executable, "-m", "cumae", "fuzz", *options], capture_output=True, text=True)
    if done.returncode:
        print(f"seed {seed}, kept in {own}:", done.stdout, done.stderr, sep="\n")
    return done.returncode


with ThreadPoolExecutor(given.jobs) as pool:
    statuses = list(pool.map(run, range(1, given.runs + 1)))
if not set(statuses) <= {0, 1}:
    sys.exit("ci/repeated.py: a run ended with an exit status other than 0 and 1")
found = [json.loads(file.read_text()) for file in kept.glob("[0-9]*.json")]
sums = {n: sum(v[n] for one in found for v in one["verdicts"]) for n in ("cases", "comparisons")}
sums |= {"runs": given.runs, "flakes": sum(statuses), "seconds": round(time.monotonic() - began, 1)}
if given.out:
    command = f"ci/repeated.py --runs {given.runs} --cases {given.cases}"
    machine = {k: found[0][k] for k in ("device", "python", "torch", "triton", "numpy")}
    write_record(given.out, {**machine, "command": command, **sums})
sys.exit(sums["flakes"] > 0)

"""Measure the default `cumae.check` on ten correct functions, each in its own process: ``costs.py OUT``."""

import json
import subprocess
import sys
from pathlib import Path

from cumae.properties.running.device import prepare
from cumae.properties.running.machine import measured
from cumae.properties.selfcheck.record import write_record

FUNCTIONS = {
    "cumae.gpu_impl:write_position_ids": "position_ids",
    "cumae.gpu_impl:write_slot_mapping": "slot_mapping",
    "cumae.gpu_impl:write_causal_windows": "causal_windows",
    "cumae.gpu_impl:write_prefix_interleave": "prefix_interleave",
    "cumae.gpu_impl:write_sparse_schedule": "sparse_schedule",
    "cumae.gpu_impl:write_topk_to_slots": "topk_to_slots",
    "cumae.gpu_impl:PersistentBuffers": "persistent_buffers",
    "cumae.fixtures.correct.cumae:position_ids": "position_ids",
    "cumae.fixtures.correct.cumae:slot_mapping": "slot_mapping",
    "cumae.fixtures.correct.router:grouped_topk": "grouped_topk",
}
RUN = """
import json, sys
from cumae import check
from cumae.properties.operations.targets import load_function
from cumae.properties.running.device import prepare
prepare("auto")
verdict = check(load_function(sys.argv[1]), sys.argv[2], save_to=None)
assert verdict.ok
print(json.dumps({"cases": verdict.cases, "comparisons": verdict.comparisons, "seconds": verdict.seconds}))
"""

if __name__ == "__main__":
    prepare("auto")
    found = []
    for target, operation in FUNCTIONS.items():
        done = subprocess.run([sys.executable, "-c", RUN, target, operation], capture_output=True, check=True)
        found.append({"target": target, **json.loads(done.stdout)})
        print(found[-1], flush=True)
        total = round(sum(one["seconds"] for one in found), 1)
        record = measured("ci/costs.py", seconds=total, functions=found)
        write_record(Path(sys.argv[1]), record)  # at once: a run takes minutes
    print(f"{total} s for {len(found)} functions")

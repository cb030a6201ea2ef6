"""Route rows with logits and biases in fp32 and in bf16: ``router_report.py FILE [ROWS] [SEED]``."""

import platform
import sys
from pathlib import Path

import numpy as np

from cumae.properties.selfcheck.record import write_record
from cumae.properties.selfcheck.router_rounding import DISTRIBUTIONS, compare

file = Path(sys.argv[1])
rows = int(sys.argv[2]) if len(sys.argv) > 2 else 100_000
seed = int(sys.argv[3]) if len(sys.argv) > 3 else 0
found = [record for name in DISTRIBUTIONS for record in compare(name, rows, seed)]
for record in found:
    share = record["rows_with_other_experts"] / record["rows"]
    print(f"{record['inputs']}; {record['in_bf16']} in bf16: {share:.2%} of rows select other experts")
content = {
    "python": platform.python_version(),
    "numpy": np.__version__,
    "command": f"ci/router_report.py ci/results/{file.name} {rows} {seed}",
    "seed": seed,
    "results": found,
}
write_record(file, content)

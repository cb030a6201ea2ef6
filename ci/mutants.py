"""Sum up the files that ``cumae mutate --json`` wrote for kernels or oracles: ``mutants.py FOLDER OUT``."""

import json
import sys
from collections import Counter
from pathlib import Path

from cumae.properties.selfcheck.record import write_record

folder, out = Path(sys.argv[1]), Path(sys.argv[2])
kernels = []
for file in sorted(folder.glob("*.json")):
    run = json.loads(file.read_text())
    machine = {k: run[k] for k in ("device", "python", "torch", "triton", "hypothesis", "numpy")}
    counts = Counter(mutant["status"] for mutant in run["mutants"])
    kept = ("module", "function", "line", "operator", "before", "after", "message")
    kernels.append(
        {
            "operation": file.stem,
            **machine,
            "kernels": sorted({name for mutant in run["mutants"] for name in mutant["targets"]}),
            "mutants": run["generated"],
            "judged": len(run["mutants"]),
            **dict(counts),
            "killed_by": dict(Counter(m["by"] for m in run["mutants"] if m["status"] == "killed")),
            "process_seconds": run["process_seconds"],
            "survivors": [
                {name: mutant[name] for name in kept}
                for mutant in run["mutants"]
                if mutant["status"] == "survived"
            ],
        }
    )
of = "--oracles --op" if kernels[0]["kernels"][0].startswith("cumae.oracle") else "--op"
command = f"cumae mutate {of} OPERATION --device cpu --json FILE, then ci/mutants.py"
write_record(out, {"command": command, "kernels": kernels})

"""Run STEPS of a serving engine through captured graphs: ``steps.py OPERATION TARGET STEPS OUT``."""

import sys
from dataclasses import asdict
from pathlib import Path

from cumae.properties.operations.binding import binding_of
from cumae.properties.operations.targets import load_function
from cumae.properties.running.device import prepare
from cumae.properties.running.machine import measured
from cumae.properties.selfcheck.record import write_record
from cumae.properties.selfcheck.soak import soak

operation, target, steps, out = sys.argv[1:]
if prepare("auto") != "cuda":
    sys.exit("ci/steps.py: no GPU was found, and this script needs one")
soaked = soak(binding_of(load_function(target), operation), int(steps))
print(f"{target}: {soaked.steps} steps, {soaked.captured} graphs, {soaked.seconds:.0f} s, {soaked.finding}")
command = f"ci/steps.py {operation} {target} {steps}"
write_record(Path(out), measured(command, operation=operation, **asdict(soaked)))
sys.exit(soaked.finding is not None)

"""Run correct implementations on many cases; a check that fails one is a false positive, exit status 1."""

import argparse
import sys
import time
from pathlib import Path

from cumae.properties.running.device import DEVICES, prepare
from cumae.properties.running.machine import measured
from cumae.properties.selfcheck.false_positives import added_up, try_all
from cumae.properties.selfcheck.record import write_record

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--cases", type=int, default=1000, help="cases of each implementation")
parser.add_argument("--device", choices=DEVICES, default="auto")
parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
parser.add_argument("--shards", type=int, default=1, help="runs of each implementation, with different seeds")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--volume", type=int, default=50, help="percentage of seeded cases, which are fast")
parser.add_argument("--seconds", type=float, default=float("inf"), help="start no shard after this time")
parser.add_argument("--check", action="append", help="run only this check; may be repeated")
parser.add_argument("--out", type=Path, help="write the figures here as JSON")


if __name__ == "__main__":  # spawned processes import this file
    given = parser.parse_args()
    device, began, tried = prepare(given.device), time.monotonic(), []
    names = ("cases", "jobs", "shards", "seed", "volume", "seconds")
    how = {name: getattr(given, name) for name in names} | {"checks": given.check, "device": device}
    for one in try_all(**how):
        tried.append(one)
        print(f"{one.target}: {one.cases} cases, {one.cases / one.seconds:.0f}/s", *one.accusations, sep="\n")
    sums = {name: sum(getattr(one, name) for one in tried) for name in ("cases", "comparisons")}
    sums |= {"accusations": sum(len(one.accusations) for one in tried), "seconds": time.monotonic() - began}
    if given.out:
        command = " ".join(word for word in sys.argv if word not in ("--out", str(given.out)))
        write_record(given.out, measured(command, **sums, implementations=added_up(tried)))
    print(sums)
    sys.exit(sums["accusations"] > 0)

"""Join records of engine_mutants.py: mutant_record.py OUT RECORD…; exit status 1 if a survivor has no reason.

Of a fault that several records have, the last one counts. Reasons are written by hand into OUT, and kept.
"""

import json
import sys
from pathlib import Path

from cumae.properties.selfcheck.mutant_record import joined, reasons_in
from cumae.properties.selfcheck.record import write_record

if __name__ == "__main__":
    out, *records = map(Path, sys.argv[1:])
    reasons = reasons_in(json.loads(out.read_text())) if out.exists() else {}
    record = joined([json.loads(file.read_text()) for file in records], reasons)
    write_record(out, record)
    missing = [one for one in record["survivors"] if not one["reason"]]
    for one in missing:
        print(one["engine"], one["kernel"], one["line"], one["diff"], sep="\n  ")
    sys.exit(bool(missing))

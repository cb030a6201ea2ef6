"""Write the figures of ``ci/results/*.json`` into the README; ``--check`` only compares."""

import json
import sys
from pathlib import Path

from cumae.properties.selfcheck.figures import tables

ROOT = Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- figures: made by ci/figures.py -->", "<!-- end of figures -->"

results = {file.stem: json.loads(file.read_text()) for file in (ROOT / "ci/results").glob("*.json")}
readme = ROOT / "README.md"
text = readme.read_text()
head, _, rest = text.partition(BEGIN)
wanted = f"{head}{BEGIN}\n{tables(results)}\n{END}{rest.partition(END)[2]}"
if "--check" in sys.argv:
    sys.exit(wanted != text)
readme.write_text(wanted)

"""Write the figures of ``ci/results/*.json`` into the pages that show them; ``--check`` only compares."""

import json
import sys
from pathlib import Path

from cumae.properties.selfcheck.figures import tables
from cumae.properties.selfcheck.filled import filled
from cumae.properties.selfcheck.scoreboard import engines_table, three_figures

ROOT = Path(__file__).resolve().parent.parent
results = {file.stem: json.loads(file.read_text()) for file in (ROOT / "ci/results").glob("*.json")}
blocks = {
    "README.md": {"figures": three_figures(results), "engines": engines_table(results["cpu-engines"])},
    "ci/results/README.md": {"figures": tables(results)},
}
changed = False
for name, parts in blocks.items():
    page = ROOT / name
    wanted = text = page.read_text(encoding="utf-8")
    for block, content in parts.items():
        wanted = filled(wanted, block, content)
    changed |= wanted != text
    if "--check" not in sys.argv:
        page.write_text(wanted, encoding="utf-8")
if "--check" in sys.argv:
    sys.exit(changed)

"""The wrong kernel of the README, run as ``cumae fuzz`` runs it: its report and its picture."""

import os
import re
from pathlib import Path
from typing import NamedTuple

from cumae.oracle import Case
from cumae.properties.results.case_text import PREFIX
from cumae.properties.results.explain import explain
from cumae.properties.results.svg import svg
from cumae.properties.running.device import prepare
from cumae.properties.search.budget import Budget
from cumae.properties.search.direct import search_directly
from cumae.properties.search.job import Job

FILE, FUNCTION, OPERATION, DIALECT = "slots.py", "test_slots", "slot_mapping", "vllm"
COMMAND = f"cumae fuzz {FILE}:{FUNCTION} --op {OPERATION} --dialect {DIALECT}"


class Sample(NamedTuple):
    """``console``: the command and its report as Markdown; ``picture``: the failing case as SVG."""

    console: str
    picture: str


def example_of(page: str) -> str:
    """Return the only Python example of a page."""
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    return str(example)


def shortened(report: str) -> str:
    """Return a report with only the beginning of the text that holds its case.

    >>> shortened("cumae replay 'cumae1:abcdefghijklmnop'")
    "cumae replay 'cumae1:abcdefgh…'"
    """
    return re.sub(rf"({PREFIX}\w{{8}})[^'\s]+", r"\1…", report)


def failing(example: str, folder: Path) -> Sample:
    """Return what the command prints for the example, run from an empty folder."""
    device = prepare("cpu")
    (folder / FILE).write_text(example, encoding="utf-8")
    before = Path.cwd()
    os.chdir(folder)
    try:
        job = Job(
            target=f"{FILE}:{FUNCTION}",
            operation=OPERATION,
            dialect=DIALECT,
            device=device,
            budget=Budget(examples=100),
            failures=Path(".cumae/failures"),
        )
        verdict = search_directly(job)
    finally:
        os.chdir(before)
    if verdict.failure is None or not isinstance((case := verdict.failure.case), Case):
        raise ValueError(f"example = {verdict.status}, must fail on a single case")
    console = f"```console\n$ {COMMAND}\n…\n{shortened(explain(verdict))}\n```"
    return Sample(console, svg(case, verdict.failure.finding))

"""COVERAGE.md: covered means that an adapter runs it."""

import re
from pathlib import Path

import pytest

from cumae.properties.engines.coverage import covered, functions_of

TEXT = (Path(__file__).resolve().parents[3] / "COVERAGE.md").read_text(encoding="utf-8")


def test_the_table_is_made_from_the_adapters() -> None:
    assert covered() in TEXT, "run ci/adapters.py"


@pytest.mark.parametrize(("engine", "title"), [("vllm", "### vLLM 0.33.0"), ("sglang", "### SGLang 0.5.23")])
def test_no_adapter_runs_what_is_not_covered(engine: str, title: str) -> None:
    _, _, rest = TEXT.partition("## Not covered")[2].partition(title)
    rows = [line.split("|")[2] for line in rest.partition("\n### ")[0].splitlines() if line.startswith("| ")]
    named = {name.split("(")[0].strip() for row in rows for name in re.split(r",| / ", row)}
    assert named
    assert not named & functions_of(engine)

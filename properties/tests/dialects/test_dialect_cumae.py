"""The page of cumae's own names has all of them, with their dtypes, and its example runs."""

import re
from pathlib import Path
from typing import Any

import pytest

from cumae.oracle import Batch, Case, Inputs, Layout, Options, Request
from cumae.properties import dialects
from cumae.properties.dialects import CUMAE, Floats, Ints
from cumae.properties.operations import OPERATIONS

PAGE = (Path(dialects.__file__).parent / "cumae.md").read_text(encoding="utf-8")
INPUTS, OUTPUTS = PAGE.split("## Outputs")
STEP = Case(
    Batch((Request(3, 2, (5, 2)), Request(6, 1, (7, 3), "decode")), 4),
    Layout(num_padding_tokens=4, num_padding_requests=1),
    Options.of(topk=3),
)


def rows_of(text: str, column: int) -> dict[str, str]:
    """Return the whole row of each name in a column of a page's tables."""
    cells = [row.split("|") for row in text.splitlines() if row.startswith("|")]
    return {name: "|".join(row) for row in cells for name in re.findall(r"`(\w+)`", row[column])}


def test_every_input_stands_on_its_page() -> None:
    assert rows_of(INPUTS, 1).keys() == CUMAE.inputs.keys()


def test_every_output_stands_on_its_page() -> None:
    own = {output.name for outputs in CUMAE.outputs.values() for output in outputs}
    named = {output.name for operation in OPERATIONS.values() for output in operation.outputs}
    assert rows_of(OUTPUTS, 2).keys() == named
    assert all(f"`{name}`" in OUTPUTS for name in own)
    for operation in OPERATIONS.values():
        assert re.search(rf"^\|[^|]*\b{operation.name}\b", OUTPUTS, re.MULTILINE), operation.name


@pytest.mark.parametrize("name", sorted(CUMAE.inputs))
def test_an_input_has_the_dtype_that_its_row_tells(name: str) -> None:
    row, inputs = rows_of(INPUTS, 1)[name], Inputs(STEP)
    held: Any = CUMAE.inputs[name].hold(inputs)
    if isinstance(held, Ints):
        wide = Inputs(STEP.laid_out(index_dtype="int64"))
        either: Any = CUMAE.inputs[name].hold(wide)
        varies = either.dtype != held.dtype
        assert varies == (f"`{name}` ¹" in row)
        assert held.dtype == "int32" or held.dtype in row
    elif isinstance(held, Floats):
        assert held.dtype in row
    elif isinstance(held, (bool, float, str)):
        assert type(held).__name__ in row or "whether" in row


def test_the_example_of_the_page_runs() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(example, "cumae.md", "exec"), names)
    assert names["verdict"].ok

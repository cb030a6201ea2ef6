"""Facts about the content of caches that a function reads: it follows the slot, and changes between steps."""

import pytest

from cumae.fixtures.limits import step
from cumae.oracle import Inputs
from cumae.properties.dialects import DIALECTS, Dialect
from cumae.properties.dialects.held import Rows

CASE = step((9, 2), (20, 1))
CACHES = [("cumae", "pages"), ("cumae", "cache"), ("fastdeploy", "latent_cache")]


def _content(dialect: Dialect, name: str, inputs: Inputs) -> bytes:
    held = dialect.inputs[name].hold(inputs)
    assert isinstance(held, Rows) and len(held.content)
    return held.content.tobytes()


@pytest.mark.parametrize(("dialect", "name"), CACHES)
def test_a_slot_holds_the_same_bytes_in_each_call_on_a_case(dialect: str, name: str) -> None:
    named = DIALECTS[dialect]
    assert _content(named, name, Inputs(CASE)) == _content(named, name, Inputs(CASE))


@pytest.mark.parametrize(("dialect", "name"), CACHES)
def test_a_slot_holds_other_bytes_in_each_step_of_a_trace(dialect: str, name: str) -> None:
    named, before = DIALECTS[dialect], step((8, 1), (20, 0))
    seen = {_content(named, name, Inputs(CASE, previous)) for previous in (None, before, CASE)}
    assert len(seen) == 3

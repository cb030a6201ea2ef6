"""Facts about traces of one step in layers that differ in an option."""

import pytest

from cumae.properties.cases.domain import Domain
from cumae.properties.cases.features import NAMES
from cumae.properties.steps.ladder import Ladder
from cumae.properties.steps.other_layers import LAYERS, in_layers_of
from cumae.properties.tests.given.kinds import LADDER


@pytest.mark.parametrize("name", LAYERS)
def test_one_step_comes_again_with_other_values_and_the_first_one(name: str) -> None:
    trace = in_layers_of(name, LADDER)
    assert trace is not None and len({step.batch for step in trace.steps}) == 1
    values = [step.options.value(name) for step in trace.steps]
    assert set(values) == set(LAYERS[name]) and values[0] == values[-1]


def test_some_keys_are_beyond_a_window_and_others_are_not() -> None:
    trace = in_layers_of("window", LADDER)
    assert trace is not None
    ends = [request.seq_len for request in trace.steps[0].batch.requests]
    assert min(ends) < 64 < 128 < max(ends)


def test_promised_windows_stand_in_for_those_that_are_not() -> None:
    trace = in_layers_of("window", Ladder(Domain(window=(0, 1_024, 2_048)), NAMES))
    assert trace is not None and trace.steps[0].batch.requests[0].seq_len > 2_048
    assert [step.options.value("window") for step in trace.steps] == [0, 1_024, 2_048, 0]


def test_a_domain_with_one_value_has_none_of_them() -> None:
    assert in_layers_of("window", Ladder(Domain(window=(128,)), NAMES)) is None
    assert in_layers_of("window", Ladder(Domain(), ())) is None

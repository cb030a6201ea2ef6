"""The default search finds what is wrong in crowds, in steps of served models, and what knows half a step."""

import pytest

from cumae.fixtures.limits import (
    Limit,
    biases_of_routers,
    busy_steps,
    captured_widths,
    circumstances_that_meet,
    composed_steps,
    crowds_of_one_kind,
    crowds_under_circumstances,
    deep_and_long_steps,
    drafts_that_meet,
    equal_requests,
    exact_steps,
    heads_of_models,
    histories_of_choices,
    histories_of_churn,
    histories_of_days,
    histories_of_exchanges,
    histories_of_layers,
    histories_of_options,
    histories_of_places,
    histories_of_steady_decodes,
    histories_of_windows,
    orders_of_lanes,
    ordinary_steps,
    pages_that_meet,
    served_crowds,
    served_steps,
    sides_of_options,
    steps_behind_others,
    steps_of_arrivals,
    steps_of_budgets,
    steps_of_documents,
    steps_of_prompts,
    steps_taken_for_others,
    steps_that_coincide,
    steps_that_mix,
    steps_where_kinds_meet,
    tables_of_mixed_steps,
    thousands_of_pairs,
    units_of_crowds,
    values_of_choices,
    values_of_rows,
)
from cumae.properties.cases.domain import Domain
from cumae.properties.operations.binding import binding_of
from cumae.properties.operations.targets import load_function
from cumae.properties.running.device import prepare
from cumae.properties.search.budget import Budget
from cumae.properties.search.loop import search

DEVICE = prepare("auto")
ORDINARY = (
    *busy_steps.LIMITS,
    *circumstances_that_meet.LIMITS,
    *sides_of_options.LIMITS,
    *drafts_that_meet.LIMITS,
    *pages_that_meet.LIMITS,
    *crowds_under_circumstances.LIMITS,
    *ordinary_steps.LIMITS,
    *steps_behind_others.LIMITS,
    *steps_of_arrivals.LIMITS,
    *steps_of_budgets.LIMITS,
    *steps_of_documents.LIMITS,
    *steps_of_prompts.LIMITS,
    *steps_taken_for_others.LIMITS,
    *steps_that_coincide.LIMITS,
    *steps_that_mix.LIMITS,
    *tables_of_mixed_steps.LIMITS,
    *equal_requests.LIMITS,
    *heads_of_models.LIMITS,
    *exact_steps.LIMITS,
    *thousands_of_pairs.LIMITS,
    *units_of_crowds.LIMITS,
    *captured_widths.LIMITS,
    *steps_where_kinds_meet.LIMITS,
    *deep_and_long_steps.LIMITS,
    *values_of_choices.LIMITS,
    *biases_of_routers.LIMITS,
    *values_of_rows.LIMITS,
)
OF_THE_INTERPRETER = orders_of_lanes.LIMITS if DEVICE == "cpu" else ()

SERVED = (*served_crowds.LIMITS, *served_steps.LIMITS, *composed_steps.LIMITS)
LIMITS = (
    *crowds_of_one_kind.LIMITS,
    *histories_of_places.LIMITS,
    *histories_of_steady_decodes.LIMITS,
    *histories_of_choices.LIMITS,
    *histories_of_churn.LIMITS,
    *histories_of_days.LIMITS,
    *histories_of_exchanges.LIMITS,
    *histories_of_layers.LIMITS,
    *histories_of_options.LIMITS,
    *histories_of_windows.LIMITS,
    *ORDINARY,
    *SERVED,
    *OF_THE_INTERPRETER,
)


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit.where)
def test_it_is_found(limit: Limit) -> None:
    domain = Domain(**{"captured": False, **limit.promises})
    binding = binding_of(load_function(limit.target), limit.operation, domain=domain)
    verdict = search(binding, DEVICE, Budget(examples=200), checks=[limit.check], reduce=False)
    assert verdict.failure is not None
    assert verdict.failure.finding.check == limit.check

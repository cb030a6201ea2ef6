"""Promises on values, whole steps and ids: draws, large cases, fixtures and the reducer stay inside them."""

from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

import pytest

from cumae.fixtures.correct.cumae import slot_mapping
from cumae.oracle import Batch, Case, Inputs, Options, Request
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.features import FEATURES, PROMISED
from cumae.properties.cases.reducer import reduce_case
from cumae.properties.cases.seeded import large_case, seeded_cases
from cumae.properties.checks import checks_for
from cumae.properties.dialects import DIALECTS, Ints
from cumae.properties.operations import OPERATIONS
from cumae.properties.operations.binding import Binding, binding_of
from cumae.properties.operations.targets import load_function
from cumae.properties.search.direct import check
from cumae.properties.search.first_cases import fixture_cases
from cumae.properties.state.walks import walk


class Promised(NamedTuple):
    """A promise, and whether a case keeps to it, told without asking the domain."""

    domain: Domain
    holds: Callable[[Case], bool]
    kernel: str = "write_slot_mapping"
    operation: str = "slot_mapping"

    def binding(self, domain: Domain | None = None) -> Binding:
        return binding_of(load_function(f"cumae.gpu_impl:{self.kernel}"), self.operation, domain=domain)


def _decodes(case: Case) -> list[int]:
    return [r.query_len for r in case.batch.requests if r.phase == "decode"]


def _is_verify_step(case: Case) -> bool:
    lens = _decodes(case)
    return len(lens) == len(case.batch.requests) and len(set(lens)) <= 1 and min(lens, default=2) > 1


def _selects_first(case: Case) -> bool:
    rows = [[entry != -1 for entry in row] for row in Inputs(case)["selected_positions"]]
    return all(row == sorted(row, reverse=True) for row in rows)


def _largest(case: Case) -> int:
    return max((i for r in case.batch.requests for i in r.block_ids), default=-1)


def _never_falls(case: Case, place: Callable[[Request], int]) -> bool:
    places = list(map(place, case.batch.requests))
    return places == sorted(places)


def _begins_blocks(case: Case) -> bool:
    size = case.batch.tokens_per_block
    return all(r.context_len % size == 0 for r in case.batch.requests if r.phase == "prefill")


SELECTED = ("write_topk_to_slots", "topk_to_slots")
PROMISES = {
    "topk": Promised(
        Domain(topk=(2048,), max_tokens=64), lambda c: c.options.selection.topk == 2048, *SELECTED
    ),
    "world": Promised(Domain(world=(1, 8)), lambda c: c.batch.world in (1, 8)),
    "interleave": Promised(
        Domain(world=(4,), interleave=(16,)),
        lambda c: (c.batch.world, c.options.parallel.interleave) == (4, 16),
    ),
    "positions first": Promised(Domain(selected_first=(True,), topk=(4,)), _selects_first, *SELECTED),
    "positions in the table": Promised(
        Domain(select_beyond=(False,)), lambda c: not c.options.selection.select_beyond, *SELECTED
    ),
    "whole prefixes": Promised(Domain(whole_prefixes=True), _begins_blocks),
    "whole prefixes of few tokens": Promised(
        Domain(whole_prefixes=True, max_tokens=48, max_block_id=40), _begins_blocks
    ),
    "alike decodes": Promised(Domain(uniform_decodes=True), lambda c: len(set(_decodes(c))) <= 1),
    "verify steps": Promised(Domain(verify_steps=True), _is_verify_step),
    "decodes first": Promised(
        Domain(order="decodes_first"), lambda c: _never_falls(c, lambda r: r.phase == "prefill")
    ),
    "prefills first": Promised(
        Domain(order="prefills_first"), lambda c: _never_falls(c, lambda r: r.phase == "decode")
    ),
    "shortest first": Promised(
        Domain(order="shortest_first"), lambda c: _never_falls(c, lambda r: r.query_len)
    ),
    "block ids": Promised(Domain(max_block_id=40, reserved_blocks=2), lambda c: _largest(c) <= 40),
    "tokens": Promised(Domain(max_tokens=48), lambda c: c.num_tokens_padded <= 48),
    "tokens of verify steps": Promised(
        Domain(max_tokens=48, verify_steps=True),
        lambda c: c.num_tokens_padded <= 48 and _is_verify_step(c),
    ),
}


@pytest.mark.parametrize("name", PROMISES)
def test_drawn_cases_keep_to_it_and_differ(name: str) -> None:
    one = PROMISES[name]
    drawn = list(islice(seeded_cases(7, one.domain, OPERATIONS[one.operation].features), 400))
    assert all(map(one.holds, drawn))
    assert {one.domain.why_not(case) for case in drawn} == {None}
    assert len({len(case.batch.requests) for case in drawn}) > 5


@pytest.mark.parametrize("name", PROMISES)
def test_a_large_case_keeps_to_it_or_is_not_promised(name: str) -> None:
    one = PROMISES[name]
    case = large_case(3, one.domain, OPERATIONS[one.operation].features, num_requests=300, num_tokens=3000)
    assert one.holds(case) or one.domain.why_not(case) is not None


@pytest.mark.parametrize("name", PROMISES)
def test_a_case_beyond_it_is_no_fixture(name: str) -> None:
    one = PROMISES[name]
    beyond = [case for case in fixture_cases(one.binding()) if not one.holds(case)]
    assert all(map(one.holds, fixture_cases(one.binding(one.domain))))
    unlimited = beyond or [case for case in seeded_cases_of(one) if not one.holds(case)]
    assert unlimited
    assert one.domain.why_not(unlimited[0]) is not None


def seeded_cases_of(one: Promised) -> list[Case]:
    return list(islice(seeded_cases(1, None, OPERATIONS[one.operation].features), 200))


@pytest.mark.parametrize("name", PROMISES)
def test_a_failing_case_is_reduced_inside_it(name: str) -> None:
    one = PROMISES[name]
    drawn = seeded_cases(3, one.domain, OPERATIONS[one.operation].features)
    case = next(c for c in drawn if len(c.batch.requests) > 2 and c.batch.num_tokens > 2)
    found = reduce_case(case, lambda tried: tried.batch.num_tokens > 1 and one.domain.why_not(tried) is None)
    assert one.holds(found)
    assert found.batch.num_tokens <= 3


def test_an_option_that_is_not_named_has_the_promised_value() -> None:
    drawn = islice(seeded_cases(1, Domain(topk=(8, 16)), features=()), 50)
    assert {case.options.selection.topk for case in drawn} == {8}


def test_every_option_may_be_promised() -> None:
    alone = {
        name for row in FEATURES if row.record == "options" and len(row.fields) == 1 for name in row.fields
    }
    assert alone <= set(PROMISED)
    for name in alone - {"interleave", "kernel_block_size", "window", "compress_ratio", "rank"}:
        case = next(seeded_cases(1, features={PROMISED[name].name}))
        value = case.options.value(name)
        given = {**({"row_format": ("fp8",)} if name == "power_of_two_scales" else {}), name: (value,)}
        for drawn in islice(seeded_cases(2, Domain(**given), {PROMISED[name].name, "row_format"}), 20):
            assert drawn.options.value(name) == value


def test_it_is_printed_as_it_is_written() -> None:
    assert repr(Domain()) == "Domain()"
    assert (
        repr(Domain(topk=(8,), max_requests=3, rank=(0, 1)))
        == "Domain(max_requests=3, topk=(8,), rank=(0, 1))"
    )


def test_checks_are_promised_but_for_some() -> None:
    one = PROMISES["world"]
    every = checks_for(one.binding())
    assert checks_for(one.binding(Domain(all_but=("agrees", "keeps_facts")))) == tuple(
        name for name in every if name not in ("agrees", "keeps_facts")
    )
    with pytest.raises(ValueError, match=r"all_but = 'agree' \(did you mean 'agrees'\?\), must be"):
        checks_for(one.binding(Domain(all_but=("agree",))))


@pytest.mark.parametrize(
    ("promises", "error"),
    [
        ({"topk": 8}, "topk = 8, must be a non-empty tuple"),
        ({"topk": (0,)}, "topk = 0, must be >= 1"),
        ({"top": (8,)}, "top = .*, must be a promise: block_sizes, "),
        ({"world": (0,)}, "world = 0, must be >= 1"),
        ({"index_dtype": ("int16",)}, "index_dtype = 'int16', must be one of 'int32', 'int64'"),
        ({"interleave": (100,)}, r"interleave = \(\(100,\),\), must divide one of block_sizes"),
        ({"max_tokens": 3, "min_tokens": 4}, "min_tokens = 4, must be <= 3, the most tokens of a step"),
        ({"max_block_id": 2, "reserved_blocks": 3}, "max_block_id = 2, must be >= 3: "),
        ({"verify_steps": True, "phases": ("prefill",)}, "phases = .*, must hold 'decode' for verify steps"),
        ({"verify_steps": True, "max_query_len": 1}, "max_query_len = 1, must be >= 2 for verify steps"),
        ({"all_but": "agrees"}, "all_but = 'agrees', must be a tuple of check names"),
    ],
)
def test_a_promise_that_cannot_be_kept_is_refused(promises: dict[str, object], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        Domain(**promises)


@pytest.mark.parametrize("name", PROMISES)
def test_the_steps_of_an_engine_keep_to_it(name: str) -> None:
    one = PROMISES[name]
    binding = one.binding(one.domain)
    steps = [case for number in range(12) for case in islice(walk(binding, number), 12)]
    assert all(map(one.holds, steps))
    assert {binding.why_not(case) for case in steps} == {None}


def test_selected_positions_go_beyond_the_table_in_every_dialect_that_holds_them() -> None:
    options = Options.of(topk=4, select_beyond=True)
    beyond = Case(Batch((Request(0, 3, (7,)),), 4), options=options)
    inside = replace(beyond, options=options.having(select_beyond=False))
    found = set()
    for dialect in DIALECTS.values():
        for name, known in dialect.inputs.items():
            held, other = (known.hold(Inputs(case)) for case in (beyond, inside))
            if isinstance(held, Ints) and isinstance(other, Ints) and (held.values != other.values).any():
                assert "select_beyond" in (name, *known.carries), (dialect.name, name)
                found.add((dialect.name, name))
    # SGLang selects inside the request only.
    assert found == {("cumae", "selected_positions"), ("vllm", "token_indices")}


@pytest.mark.parametrize(
    "promises",
    [
        {"max_context_len": 0},
        {"min_tokens": 5, "max_tokens": 5},
        {"min_tokens": 100, "max_requests": 2},
        {"min_tokens": 9000, "padding": "none"},
        {"max_requests": 0},
        {"max_block_id": 1, "max_tokens": 3},
        {"reserved_blocks": 100, "max_block_id": 110},
    ],
    ids=str,
)
def test_a_search_stays_inside_promises_at_their_edge(promises: dict[str, Any]) -> None:
    domain = Domain(captured=False, missing_blocks=False, rowless_requests=False, world=(1,), **promises)
    few: dict[str, Any] = {"examples": 5, "checks": ("agrees", "writes_everything")}
    verdict = check(slot_mapping, "slot_mapping", domain=domain, save_to=None, **few)
    assert verdict.ok, verdict.failure


def test_a_promised_window_is_not_left_out_where_keys_could_be_compressed() -> None:
    target = load_function("cumae.gpu_impl:write_causal_windows")
    binding = binding_of(target, "causal_windows", domain=Domain(window=(512,)))
    drawn = list(islice(seeded_cases(1, binding.domain, binding.features), 60))
    assert {case.options.keys.window for case in drawn} == {512}
    assert all(binding.why_not(case) is None for case in drawn)


def test_far_rows_are_those_of_tables_and_of_keys_whose_offset_passes_2_31() -> None:
    decodes = tuple(Request(3, 1, (b,), "decode") for b in range(3))
    plain, near = Case(Batch(decodes, 16)), Domain(far_rows=False)
    assert near.why_not(plain) is None
    assert near.why_not(plain.laid_out(table_row_gap=2**30)) == "table rows past 2^31"
    assert near.why_not(plain.laid_out(table_row_gap=2**30 - 1)) is None
    assert near.why_not(plain.laid_out(new_row_gap=2**30)) == "rows past 2^31"
    assert near.why_not(plain.laid_out(min_table_columns=2**20, row_index=(2_048, 0, 1))) is not None
    assert near.why_not(plain.laid_out(min_table_columns=2**20, row_index=(2_047, 0, 1))) is None

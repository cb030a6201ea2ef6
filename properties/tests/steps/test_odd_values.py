"""Facts about steps of ordinary size whose drafts or selected keys are unusual, and about traces of them."""

from dataclasses import replace
from itertools import pairwise

from cumae import gpu_impl
from cumae.oracle import Batch, Case, Inputs, Options, Request
from cumae.oracle.model.marks import GARBAGE
from cumae.oracle.model.selections import topk_indices
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.features import NAMES
from cumae.properties.operations.binding import binding_of
from cumae.properties.state.walks import trace_of
from cumae.properties.steps.kinds import KINDS
from cumae.properties.steps.ladder import Ladder
from cumae.properties.steps.moved_blocks import with_another
from cumae.properties.tests.given.kinds import LADDER, smallest


def test_neighbours_of_equal_lengths_have_other_drafts() -> None:
    case = smallest("unequal drafts")
    assert len({(r.context_len, r.query_len) for r in case.batch.requests}) == 1
    assert {*Inputs(case)["num_drafts"]} == {0, 1, 2, 3}


def test_tokens_select_nothing_and_others_have_holes_in_the_cache_or_in_a_workspace() -> None:
    for name, gathered in (("selections with holes", False), ("selections with holes in a workspace", True)):
        inputs = Inputs(smallest(name))
        rows = [[position >= 0 for position in row] for row in inputs["selected_positions"]]
        assert not any(rows[0]) and any(map(any, rows))
        ids = inputs["workspace_ids"] or [-1] * len(rows)
        assert any(ids[t] >= 0 for t in range(len(rows))) == gathered
        with_holes = [t for t, row in enumerate(rows) if any(a and not b for a, b in pairwise(row[::-1]))]
        assert any((ids[t] >= 0) == gathered for t in with_holes)


def test_a_domain_without_seeds_has_none_of_them() -> None:
    ladder = Ladder(Domain(draft_seed=(0,), selection_seed=(0,)), NAMES)
    assert KINDS["unequal drafts"][0](ladder, 5) is None
    assert KINDS["selections with holes"][0](ladder, 5) is None
    assert with_another("draft_seed", ladder) is None


def test_a_step_comes_again_with_other_drafts_keys_or_places_in_the_workspace() -> None:
    for option, name in (
        ("draft_seed", "num_drafts"),
        ("selection_seed", "selected_positions"),
        ("workspace_gap", "workspace_starts"),
    ):
        trace = with_another(option, LADDER)
        assert trace is not None and len({step.batch for step in trace.steps}) == 1
        first, second, third, last = (Inputs(step)[name] for step in trace.steps)
        assert first == last and first != second != third != first


def test_steps_of_a_walk_have_drafts_of_their_own() -> None:
    binding = binding_of(gpu_impl.write_draft_steps, "draft_steps")
    seeds = [case.options.drafts.draft_seed for case in trace_of(binding, 3)]
    assert len({*seeds}) > 1
    settled = binding_of(gpu_impl.write_draft_steps, "draft_steps", domain=Domain(draft_seed=(2,)))
    assert {case.options.drafts.draft_seed for case in trace_of(settled, 3)} == {2}


def test_a_seed_selects_others_between_the_same_ends() -> None:
    rows = [topk_indices([7] * 40, list(range(20, 60)), 9, "mixed", seed) for seed in range(4)]
    for t in range(40):
        found = [[position for position in seeded[t] if position != GARBAGE] for seeded in rows]
        assert {(len(row), len({*row}), min(row), max(row)) for row in found} == {
            (7, 7, min(found[0]), max(found[0]))
        }
    assert all(sum(a != b for a, b in zip(rows[0], other, strict=True)) > 30 for other in rows[1:])


def test_without_a_seed_no_position_stands_behind_a_hole() -> None:
    case = smallest("selections with holes")
    plain = replace(case, options=case.options.having(selection_seed=0, select_beyond=False))
    for row in Inputs(plain)["selected_positions"]:
        positions = [position >= 0 for position in row]
        assert "TFT" not in "".join("T" if one else "F" for one in positions)


def test_keys_in_a_workspace_lie_apart_by_the_gap() -> None:
    requests = (Request(0, 3, (0,)), Request(0, 0), Request(2, 4, (1,)))
    case = Case(Batch(requests, 16), options=Options.of(prefill_workspace=True, workspace_gap=5))
    assert Inputs(case)["workspace_starts"] == [5, 13]


def test_biases_of_a_router_are_of_one_kind_if_they_may_be() -> None:
    case = smallest("routed by nan_and_inf behind low biases")
    assert (case.options.router.logits_kind, case.options.router.bias_kind) == ("nan_and_inf", "low")
    ladder = Ladder(Domain(bias_kind=("as_logits",)), NAMES)
    case = smallest("routed by nan_and_inf behind low biases", ladder)
    assert case.options.router.bias_kind == "as_logits"

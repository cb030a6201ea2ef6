"""Faults planted in every operation: attention notices each, or provably cannot see it."""

from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import islice

import pytest

from cumae.oracle import Batch, Case, Options, Request
from cumae.properties.attention import judge
from cumae.properties.attention.answers import NO_PART, Lists
from cumae.properties.attention.blind_spots import BLIND_SPOTS, BlindSpot
from cumae.properties.faults.mutants import mutants_of
from cumae.properties.tests.broken.oracles import BROKEN, BROKEN_IN_TRACES, Broken
from cumae.properties.tests.given.attention_steps import ORACLES, Asked, fixed_steps, steps_with
from cumae.properties.tests.simulation.simulated import Oracle

# What these do wrong stands where attention cannot see it.
UNSEEN = {
    "rest_for_the_last_worker",
    "padding_attends_to_one_key",
    "key_of_exact_contexts",
    "key_of_a_step_the_host_does_not_know",
    "nothing_cleared",
    "everything_cleared",
    "one_key_cleared_for_each_row",
    "offsets_end_with_the_padding",
    "window_of_one_token_more",
    "full_page_without_a_token",
    "pages_of_new_tokens_alone",
    "padding_sees_one_key",
}
# Attention is not defined over keys without a slot, so no step here shows it.
NOT_DEFINED = {"positions_without_a_slot_left_out"}
STEPS_OF_EACH_ENTRY = (6, 19, 20, 33, 35, 36, 47, 48, 63, -2, -1)


@cache
def asked_about(operation: str) -> Asked:
    return Asked(operation, fixed_steps())


@pytest.mark.parametrize(
    "broken", [b for b in BROKEN if b.operation not in NO_PART], ids=lambda broken: broken.oracle.__name__
)
def test_a_broken_oracle_is_noticed_or_in_a_blind_spot(broken: Broken) -> None:
    outcome, spots = Asked(broken.operation, steps_with(broken.features)).outcome(broken.oracle)
    name = broken.oracle.__name__
    expected = (
        {"unseen"} if name in UNSEEN else {"no answer"} if name in NOT_DEFINED else {"noticed", "raises"}
    )
    assert outcome in expected, spots


@pytest.mark.parametrize(
    ("operation", "oracle"), BROKEN_IN_TRACES, ids=lambda of: getattr(of, "__name__", "")
)
def test_a_broken_oracle_of_traces_is_noticed_or_in_a_blind_spot(operation: str, oracle: Oracle) -> None:
    outcome, spots = asked_about(operation).outcome(oracle)
    assert outcome == ("unseen" if oracle.__name__ in UNSEEN else "noticed"), spots


@pytest.mark.parametrize("operation", sorted(ORACLES))
def test_each_mutant_of_an_oracle_is_noticed_or_in_a_blind_spot(operation: str) -> None:
    """One that is noticed in a blind spot fails inside; one in no answer differs in none of the steps."""
    counts: Counter[str] = Counter()
    for mutant in mutants_of(ORACLES[operation]):
        outcome, _ = asked_about(operation).outcome_of_mutant(mutant)
        counts[outcome] += 1
        assert outcome != "unexplained", f"{mutant.diff}\nis noticed nowhere, and no blind spot says why"
    assert counts["noticed"] + counts["raises"] > 10 and counts["no answer"] < counts.total() / 5, counts


@pytest.mark.parametrize("operation", sorted(ORACLES))
def test_each_entry_matters_but_those_in_blind_spots(operation: str) -> None:
    assert entries_noticed(operation)[0] > 20


def test_no_blind_spot_is_there_for_nothing() -> None:
    """Of an empty window two entries must move."""
    seen = {spot for operation in ORACLES for spot in entries_noticed(operation)[1]}
    unseen = [(spot.operations, spot.where) for spot in BLIND_SPOTS if spot not in seen]
    assert unseen == [(("causal_windows",), "windows that are empty and stay so")]


@cache
def entries_noticed(operation: str) -> tuple[int, set[BlindSpot]]:
    """Change entries of each output to one more and one less; return how many are noticed, and the spots.

    Raises ``AssertionError`` unless each is noticed exactly where no blind spot has it.
    """
    asked = Asked(operation, [fixed_steps()[number] for number in STEPS_OF_EACH_ENTRY])
    num_noticed, seen = 0, set()
    for number in range(len(asked.steps)):
        for told, answer in _with_one_entry_changed(asked.right[number]):
            why, is_noticed = asked.one(number, answer)
            assert is_noticed == (None in why), (number, told, why)
            num_noticed += is_noticed
            seen |= {spot for spot in why if spot}
    return num_noticed, seen


def _with_one_entry_changed(right: Lists) -> Iterator[tuple[str, Lists]]:
    """Yield answers with one wrong entry: of an output of hundreds of entries, every few."""
    for name, values in right.items():
        for index, value in islice(enumerate(values), 0, None, 1 + len(values) // 150):
            for less in (-1, 1) if isinstance(value, (int, tuple)) else ():
                now = (*value[:-1], value[-1] + less) if isinstance(value, tuple) else value + less
                changed = [*values[:index], now, *values[index + 1 :]]
                told = f"{name}[{index}] = {now}, must be {value}"
                yield told, {**right, name: type(values)(changed)}


@pytest.mark.parametrize(
    ("items", "is_right"),
    [
        ([(2, 0, 9), (0, 1, 3), (1, 0, 4), (0, 0, 1)], True),  # any order, past the last key
        ([(0, 0, 3), (1, 0, 4), (2, 0, 4), (2, 4, 5)], True),
        ([(0, 0, 3), (1, 0, 4), (2, 0, 4)], False),  # key 4 of row 2 is in no item
        ([(0, 0, 3), (1, 0, 4), (2, 0, 4), (2, 3, 5)], False),  # key 3 of row 2 is in two
        ([(0, 0, 3), (1, 0, 4), (2, 0, 5), (3, 0, 1)], False),  # there is no row 3
    ],
)
def test_a_schedule_of_any_kind_is_right_iff_attention_is(
    items: list[tuple[int, int, int]], is_right: bool
) -> None:
    case = Case(Batch((Request(2, 3, (4, 2), "decode"),), 4), options=Options.of(topk=8, split_size=4))
    padded = [*items, *[(-1, 0, 0)] * (6 - len(items))]
    said = {
        name: [item[i] for item in padded] for i, name in enumerate(("work_token", "work_start", "work_stop"))
    }
    assert (judge(case, {"any_schedule": lambda inputs: said}) == []) == is_right


@pytest.mark.parametrize("operation", NO_PART)
def test_an_operation_that_has_no_part_in_attention_is_no_answer(operation: str) -> None:
    with pytest.raises(ValueError, match=f"answers = '{operation}'.*, must be one of"):
        judge(Case(Batch((Request(0, 1, (3,)),), 4)), {operation: lambda inputs: {}})


def test_an_empty_window_may_stand_anywhere() -> None:
    case = Case(Batch((Request(0, 3, (0,)),), 4), options=Options.of(compress_ratio=2))
    asked = Asked("causal_windows", [(None, case)])
    assert asked.right == [{"ks": [0, 0, 0], "ke": [0, 1, 1]}]
    (spot,), is_noticed = asked.one(0, {"ks": [1, 0, 0], "ke": [1, 1, 1]})
    assert spot in BLIND_SPOTS and not is_noticed
    assert asked.one(0, {"ks": [1, 0, 0], "ke": [2, 1, 1]}) == ({None}, True)

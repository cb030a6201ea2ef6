"""Facts about cases in which an option that is a length or a count has a chosen value."""

from cumae.oracle.model.drafts import num_logits_of
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.features import NAMES
from cumae.properties.steps.ladder import Ladder
from cumae.properties.steps.option_sizes import cut, drafted, listed, selected, valued

LADDER = Ladder(Domain(), NAMES)


def test_each_option_that_is_a_length_takes_a_named_size() -> None:
    found = list(valued(LADDER, 33))
    options = [case.options for case in found]
    assert 33 in {one.selection.topk for one in options}
    assert 33 in {one.keys.window for one in options}
    assert 33 in {one.schedule.num_workers for one in options}
    assert 33 in {one.schedule.split_size for one in options}
    assert 33 in {one.workspace.chunk_blocks for one in options}
    assert 33 in {one.rows.kv_lora_rank for one in options}
    assert 33 in {case.batch.world for case in found}


def test_a_large_split_comes_with_a_selection_of_several() -> None:
    (case,) = valued(Ladder(Domain(), {"split_size", "topk"}), 2_051, ("split_size",))
    assert case.options.schedule.split_size == 2_051
    assert case.options.selection.topk > 2 * 2_051


def test_a_drafted_case_samples_more_rows_than_15_bits_count() -> None:
    case = drafted(LADDER, 64, 771)
    assert case is not None
    assert sum(num_logits_of(one, 64) for one in case.batch.requests) > 2**15


def test_most_tokens_of_a_selecting_case_have_all_their_keys_and_their_sum_is_odd() -> None:
    case = selected(LADDER, 64, 700)
    assert case is not None and case.options.selection.topk == 64
    seen = [r.context_len + i + 1 for r in case.batch.requests for i in range(r.query_len)]
    kept = [min(n, 64) for n in seen]
    assert kept.count(64) > 600 and sum(kept) % 2 == 1


def test_a_cut_has_chunks_of_one_size() -> None:
    case = cut(Ladder(Domain(), {"chunk_size", "absolute_chunks"}), 3, 65_601, 71)
    assert case is not None
    assert (case.options.chunks.chunk_size, case.options.chunks.absolute_chunks) == (3, True)
    assert (65_601, 71) in [(one.context_len, one.query_len) for one in case.batch.requests]
    assert cut(Ladder(Domain(), {"window"}), 3, 65_601, 71) is None


def test_most_tokens_of_a_listing_case_list_as_many_keys_as_they_may() -> None:
    case = listed(Ladder(Domain(), {"window"}), "window", 64, 700)
    assert case is not None and case.options.keys.window == 64
    seen = [r.context_len + i + 1 for r in case.batch.requests for i in range(r.query_len)]
    assert len(seen) == 701 and sum(n >= 64 for n in seen) > 600
    assert listed(Ladder(Domain(), {"topk"}), "window", 64, 700) is None


def test_wide_rows_come_with_few_tokens() -> None:
    (case,) = valued(Ladder(Domain(), {"row_format"}), 2_051, ("row",))
    assert case.options.rows.kv_lora_rank == 2_051
    assert max(r.seq_len for r in case.batch.requests) < 200

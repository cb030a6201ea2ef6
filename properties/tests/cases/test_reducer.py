"""The reducer brings any failing case down to what one would draw on paper."""

from cumae.oracle import Batch, Case, Layout, Options, Request
from cumae.properties.cases.reducer import reduce_case, size_of
from cumae.properties.cases.seeded import large_case, seeded_cases


def lengths(case: Case) -> list[tuple[int, int]]:
    return [(r.context_len, r.query_len) for r in case.batch.requests]


def test_one_request_of_hundreds_is_left() -> None:
    case = large_case(4, num_requests=400, num_tokens=5000)
    small = reduce_case(
        case, lambda c: any(r.context_len >= 3 and r.query_len >= 2 for r in c.batch.requests)
    )
    assert lengths(small) == [(3, 2)]
    assert small.layout == type(small.layout)()


def test_a_case_that_needs_hundreds_of_requests_keeps_nothing_else_and_tries_few() -> None:
    case = large_case(6, num_requests=1024, num_tokens=5000)
    tries = 0

    def many(c: Case) -> bool:
        nonlocal tries
        tries += 1
        return len(c.batch.requests) > 300

    small = reduce_case(case, many)
    assert len(small.batch.requests) == 301
    assert tries < 150
    assert {r.seq_len for r in small.batch.requests} == {0}
    assert small.layout == Layout()


def test_two_requests_that_matter_together_are_kept() -> None:
    case = large_case(5, num_requests=100, num_tokens=2000)

    def prefix_before_work(c: Case) -> bool:
        seen = False
        for r in c.batch.requests:
            if seen and r.query_len:
                return True
            seen = seen or r.context_len > 0
        return False

    assert lengths(reduce_case(case, prefix_before_work)) == [(1, 0), (0, 1)]


def test_what_is_reduced_never_grows_and_still_fails() -> None:
    drawn = seeded_cases(9)
    for _ in range(20):
        case = next(drawn)
        if case.num_tokens_padded < 2 or len(case.batch.requests) > 40:
            continue
        small = reduce_case(case, lambda c: c.num_tokens_padded >= 2)
        assert small.num_tokens_padded >= 2
        assert size_of(small) <= size_of(case)


def test_the_numbers_of_a_sparse_schedule_shrink_to_the_least_that_fails() -> None:
    options = Options.of(topk=2048, split_size=64, num_workers=132)
    layout = Layout(num_spare_tokens=40, host_lens=False)
    case = Case(Batch((Request(0, 1, (0,)),), 1), layout, options)
    small = reduce_case(case, lambda c: c.options.selection.topk >= 5 and c.options.schedule.num_workers >= 3)
    assert small.options == Options.of(topk=5, split_size=1, num_workers=3)
    assert small.layout == Layout()


def test_each_stride_becomes_dense_or_as_short_as_fails() -> None:
    gaps = {
        "table_row_gap": 9,
        "cache_row_gap": 8,
        "cache_block_gap": 5,
        "new_row_gap": 300,
        "key_row_gap": 2,
    }
    odd = {"table_column_step": 7, "table_order": "column", "vector_step": 3, "storage_offset": 5}
    case = Case(Batch((Request(0, 1, (0,)),), 1), Layout(**gaps, **odd))  # type: ignore[arg-type]
    assert reduce_case(case, lambda c: c.layout.new_row_gap >= 256).layout == Layout(new_row_gap=256)
    assert reduce_case(case, lambda c: c.layout.table_order == "column").layout == Layout(
        table_order="column"
    )
    small = reduce_case(case, lambda c: c.layout.table_column_step > 2 and c.layout.storage_offset > 0)
    assert small.layout == Layout(table_column_step=3, storage_offset=1)


def test_a_case_that_cannot_shrink_comes_back() -> None:
    case = Case(Batch((Request(0, 1, (0,)),), 1))
    assert reduce_case(case, lambda c: c == case) == case


def test_contexts_that_share_blocks_shrink_together() -> None:
    requests = tuple(Request(32 + b % 16, 1, (0, 1, 2 + b), "decode") for b in range(80))
    case = Case(Batch(requests, 16))
    reduced = reduce_case(
        case, lambda tried: len(tried.batch.requests) == 80 and tried.batch.num_tokens == 80
    )
    assert {(request.context_len, request.query_len) for request in reduced.batch.requests} == {(0, 1)}


def test_what_a_layout_has_by_chance_is_dropped_first() -> None:
    """A reduction that time ends leaves no promises of things that do not matter."""
    tried: list[Case] = []
    case = large_case(4, num_requests=400, num_tokens=5000)
    case = case.laid_out(index_dtype="int64", garbage="huge", num_padding_tokens=3, row_index=None)

    def first_only(c: Case) -> bool:
        tried.append(c)
        return len(tried) == 1

    layout = reduce_case(case, first_only).layout
    assert layout == Layout(
        num_padding_tokens=3,
        num_padding_requests=case.layout.num_padding_requests,
        num_padding_slots=case.layout.num_padding_slots,
    )

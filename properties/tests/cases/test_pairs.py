"""Facts about pairs of option values."""

import os
from itertools import islice
from pathlib import Path
from typing import Any

from cumae.oracle import Case
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.features import NAMES
from cumae.properties.cases.pairs import Pairs, paired_cases, values_of
from cumae.properties.tests.helpers.python_process import run_python

SLOTS = frozenset({"world", "rank", "interleave", "kernel_block_size", "row_index", "missing_blocks"})
SCHEDULES = frozenset({"topk", "split_size", "num_workers"})
LISTED: dict[str, set[Any]] = {
    "block_size": {1, 8, 16, 32, 64, 128, 256},
    "world": {1, 2, 4, 8, 16},
    "compress_ratio": {1, 2, 4, 8, 128},
    "window": {127, 128, 129, 512, 1024, 4096},
    "topk": {64, 512, 1024, 2048, 4096},
    "num_workers": {78, 108, 132, 148, 160, 304},
    "split_size": {64, 128, 256, 512, 1024},
    "router": {
        (64, 1, 1, 6),
        (128, 1, 1, 8),
        (160, 8, 3, 6),
        (256, 8, 4, 8),
        (384, 1, 1, 8),
        (512, 1, 1, 10),
    },
}
"""Values that the specification lists."""


def _drawn(features: frozenset[str], count: int, domain: Domain | None = None) -> tuple[Pairs, list[Case]]:
    domain = domain or Domain()
    pairs, cases = Pairs(domain, features), []
    for case in islice(paired_cases(0, domain, features, pairs), count):
        pairs.note(case)
        cases.append(case)
    return pairs, cases


def test_every_listed_value_of_an_option_is_one_that_engines_run() -> None:
    values = values_of(Domain(), NAMES)
    for name, listed in LISTED.items():
        assert listed <= set(values[name]), name


def test_the_seeded_half_of_a_default_search_sees_nine_pairs_of_ten() -> None:
    pairs, _ = _drawn(SCHEDULES, 100)
    assert pairs.num_seen >= 0.9 * pairs.total


def test_360_cases_see_every_pair_that_can_be_combined() -> None:
    pairs, _ = _drawn(SCHEDULES, 360)
    assert pairs.num_seen == pairs.total
    pairs, cases = _drawn(SLOTS, 360)
    # Interleaves and kernel blocks must divide the block size: no case has the others.
    assert pairs.num_seen + pairs.num_refused >= 0.98 * pairs.total
    sizes = {(case.batch.block_size, case.batch.world) for case in cases}
    assert {(size, world) for size in LISTED["block_size"] for world in LISTED["world"]} <= sizes


def test_contexts_lie_on_both_sides_of_a_window() -> None:
    _, cases = _drawn(frozenset({"window"}), 100)
    wide = [case for case in cases if case.options.keys.window == 4096]
    lens = {request.seq_len for case in wide for request in case.batch.requests}
    assert min(lens) < 4096 < max(lens)


def test_pairs_keep_to_what_the_domain_promises() -> None:
    domain = Domain(block_sizes=(16, 64), world=(1, 8), max_tokens=40, topk=(2048,))
    pairs, cases = _drawn(SLOTS | SCHEDULES, 60, domain)
    assert pairs.num_seen > 0
    assert {case.batch.world for case in cases} == {1, 8}
    assert {case.options.selection.topk for case in cases} == {2048}
    assert not [told for case in cases if (told := domain.why_not(case))]


def test_a_seed_gives_the_same_cases_again() -> None:
    assert _drawn(SLOTS, 20)[1] == _drawn(SLOTS, 20)[1]


DRAWN = """
from itertools import islice
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.features import NAMES
from cumae.properties.cases.pairs import Pairs, paired_cases
pairs = Pairs(Domain(), NAMES)
for case in islice(paired_cases(5, Domain(), NAMES, pairs), 30):
    pairs.note(case)
    print(case)
"""


def test_a_seed_gives_the_same_cases_in_every_process(tmp_path: Path) -> None:
    """The order of a set of names follows Python's hash seed, which differs from process to process."""
    told = [
        run_python("-c", DRAWN, cwd=tmp_path, environment=os.environ | {"PYTHONHASHSEED": seed}, fresh=True)
        for seed in ("1", "2")
    ]
    assert [one.stderr for one in told] == ["", ""]
    assert len(told[0].stdout.splitlines()) == 30
    assert told[0].stdout == told[1].stdout

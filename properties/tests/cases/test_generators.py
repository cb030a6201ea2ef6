"""Generated cases: valid, inside their domain, and of every shape there is."""

import pytest
from hypothesis import HealthCheck, Phase, find, given, seed, settings

from cumae.oracle import Case, to_json
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.features import NAMES
from cumae.properties.cases.seeded import large_case, seeded_case, seeded_cases
from cumae.properties.cases.shapes import SHAPES, shapes_of
from cumae.properties.cases.strategies import cases

NARROW = Domain(
    block_sizes=(16, 64),
    min_requests=1,
    max_requests=3,
    empty_requests=False,
    max_context_len=40,
    max_query_len=9,
    index_dtype=("int64",),
    strided=False,
    phases=("decode",),
)
EXPLICIT = settings(
    max_examples=150, deadline=None, derandomize=False, database=None, suppress_health_check=list(HealthCheck)
)


def test_a_thousand_seeded_cases_show_every_shape() -> None:
    drawn = seeded_cases(0)
    shown = {shape for _ in range(1500) for shape in shapes_of(next(drawn))}
    assert set(SHAPES) - shown == set()


def test_drawn_cases_show_every_shape() -> None:
    """One seed may miss what another shows twenty times; what it draws depends on the modules loaded."""
    shown: set[str] = set()

    @settings(EXPLICIT, max_examples=1000, phases=(Phase.generate,))
    @given(case=cases())
    def collect(case: Case) -> None:
        shown.update(shapes_of(case))

    for number in range(1, 10):
        if set(SHAPES) - shown:
            seed(number)(collect)()
    assert set(SHAPES) - shown == set()


@EXPLICIT
@given(case=cases(domain=NARROW))
def test_drawn_cases_lie_in_their_domain(case: Case) -> None:
    assert NARROW.why_not(case) is None


def test_seeded_cases_lie_in_their_domain() -> None:
    drawn = seeded_cases(1, NARROW)
    assert [NARROW.why_not(next(drawn)) for _ in range(300)] == [None] * 300


@EXPLICIT
@given(case=cases(features=()))
def test_without_features_options_are_neutral(case: Case) -> None:
    assert to_json(case)["options"] == {}
    assert case.batch.world == 1
    assert case.layout.row_index is None


def test_the_same_seed_gives_the_same_case() -> None:
    assert seeded_case(7) == seeded_case(7)
    assert len({seeded_case(seed) for seed in range(50)}) > 45


def test_a_large_case_has_exactly_the_size_asked_for() -> None:
    case = large_case(1, num_requests=3000, num_tokens=50_000)
    assert len(case.batch.requests) == 3000
    assert case.batch.num_tokens == 50_000


def test_the_smallest_failing_batch_is_the_one_on_paper() -> None:
    case = find(
        cases(features=()),
        lambda case: any(r.context_len > 0 and r.query_len > 0 for r in case.batch.requests),
        settings=settings(EXPLICIT, max_examples=2000),
    )
    assert [(r.context_len, r.query_len) for r in case.batch.requests] == [(1, 1)]


def test_an_unknown_feature_is_refused() -> None:
    with pytest.raises(ValueError, match=r"features = \['phase_of_moon'\], must be among absolute_chunks"):
        cases(features={*NAMES, "phase_of_moon"})


@pytest.mark.parametrize(
    ("field", "value", "rule"),
    [
        ("block_sizes", (), "be a non-empty tuple"),
        ("block_sizes", (0,), "be >= 1"),
        ("min_requests", -1, "be >= 0"),
        ("max_requests", -1, "be >= 0"),
        ("index_dtype", ("int16",), "be one of 'int32', 'int64'"),
        ("phases", ("verify",), "be one of 'prefill', 'decode'"),
        ("strided", 1, "be true or false"),
    ],
)
def test_a_bad_domain_names_field_value_and_rule(field: str, value: object, rule: str) -> None:
    with pytest.raises(ValueError, match=rf"{field}(\[0\])? = .*, must {rule}"):
        Domain(**{field: value})

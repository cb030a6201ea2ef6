"""A step of the mix that engines have, judged through all kernels at once."""

import pytest

from cumae.oracle import Batch, Case, Layout, Options, Request
from cumae.properties.attention import judge, judged
from cumae.properties.attention.answers import NO_PART, right_answers
from cumae.properties.attention.production import faults_noticed, kernels, production_case
from cumae.properties.attention.routes import ROUTES
from cumae.properties.operations import OPERATIONS
from cumae.properties.running.device import prepare

DEVICE = prepare("auto")
CASE = production_case(9, 40, 5, block_size=4)
SHIPPED = sorted(name for name, op in OPERATIONS.items() if op.kernels and name not in NO_PART)


def test_a_production_case_mixes_what_engines_mix() -> None:
    requests = CASE.batch.requests
    assert {(r.phase, min(r.query_len, 2)) for r in requests} == {
        ("decode", 1),
        ("decode", 2),
        ("prefill", 0),
        ("prefill", 1),
        ("prefill", 2),
    }
    blocks = [block for r in requests for block in r.block_ids]
    assert len(set(blocks)) < len(blocks) and any(r.seq_len > 5 for r in requests)


def test_attention_through_all_kernels_at_once_is_dense_attention_on_every_route() -> None:
    answers = kernels(DEVICE)
    assert sorted(answers) == SHIPPED
    found = judged(CASE, answers)
    assert found.faults == [] and found.worst < 0.1
    assert found.rows > 10 * sum(route.fits(CASE) for route in ROUTES)


@pytest.mark.parametrize(
    ("requests", "options"),
    [
        ((), Options.of(topk=3)),
        ((Request(0, 1, (3,)),), Options.of(topk=3)),
        ((Request(0, 1, (3,)),), Options.of(window=3)),
        ((Request(5, 0, (1, 2)), Request(0, 3, (7,))), Options.of(topk=3)),
        ((Request(7, 1, (2, 0), "decode"),), Options.of(topk=3)),
    ],
)
def test_the_smallest_steps_are_right_too(requests: tuple[Request, ...], options: Options) -> None:
    assert judge(Case(Batch(requests, 4), Layout(num_padding_tokens=2), options)) == []


def test_a_fault_in_each_operation_is_noticed() -> None:
    right = right_answers()
    noticed = faults_noticed(CASE, {name: right[name] for name in SHIPPED})
    assert sorted(noticed) == SHIPPED and all(noticed.values()), noticed

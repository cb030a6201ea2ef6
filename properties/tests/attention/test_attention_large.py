"""The path of attention in torch: the same routes, over the tensors that kernels wrote."""

import pytest
import torch

from cumae.oracle import Batch, Case, Layout, Options, Request
from cumae.properties.attention.answers import answer_of, right_answers
from cumae.properties.attention.large import Dims, merged
from cumae.properties.attention.large_routes import ROUTES, compared
from cumae.properties.attention.production import REACHED, faults_noticed, kernels, production_case
from cumae.properties.running.device import prepare
from cumae.properties.tests.broken_layouts import positions_from_zero

DEVICE = prepare("auto")
DIMS = Dims(2, 8, 4)
CASE = production_case(9, 40, 5, block_size=4)


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


def test_attention_through_all_kernels_is_dense_attention_on_every_route() -> None:
    found = compared(CASE, kernels(DEVICE), DEVICE, DIMS)
    assert [result.route for result in found] == list(ROUTES)
    assert all(result.rows > 10 and result.worst < 0.1 for result in found), found


@pytest.mark.parametrize(
    "requests",
    [
        (Request(0, 1, (3,)),),
        (Request(5, 0, (1, 2)), Request(0, 3, (7,))),
        (Request(7, 1, (2, 0), "decode"),),
    ],
)
def test_the_smallest_steps_are_right_too(requests: tuple[Request, ...]) -> None:
    case = Case(Batch(requests, 4), Layout(num_padding_tokens=2), Options(topk=3))
    assert all(result.rows <= 3 and result.worst <= 1 for result in compared(case, {}, DEVICE, DIMS))


def test_a_fault_in_each_operation_is_noticed() -> None:
    noticed = faults_noticed(CASE, right_answers(), DEVICE, DIMS)
    assert sorted(noticed) == REACHED and all(noticed.values()), noticed


def test_a_fault_is_far_beyond_the_bound() -> None:
    broken = {"position_ids": answer_of(positions_from_zero)}
    found = compared(CASE, broken, DEVICE, DIMS, through=["causal_windows"])
    assert len(found) == 1 and found[0].worst > 1e6


def test_a_part_without_keys_changes_nothing() -> None:
    output, lse = torch.rand(3, 2, 4).double(), torch.rand(3, 2).double()
    empty = (torch.zeros_like(output), torch.full_like(lse, -torch.inf))
    assert merged([empty, (output, lse), empty]).equal(output)
    assert merged([empty, empty]).equal(empty[0])


@pytest.mark.parametrize(
    ("requests", "options", "rule"),
    [
        ((), Options(), "num_tokens = 0, must be >= 1"),
        ((Request(0, 1, (3,)),), Options(window=3), "must have one rank, compress_ratio 1, window 0"),
    ],
)
def test_what_the_path_does_not_cover_is_refused(
    requests: tuple[Request, ...], options: Options, rule: str
) -> None:
    with pytest.raises(ValueError, match=rule):
        compared(Case(Batch(requests, 4), options=options), {}, DEVICE, DIMS)

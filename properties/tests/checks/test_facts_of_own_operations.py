"""The facts of an operation of one's own follow from what its axes count."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import pytest
import torch

import cumae
from cumae.oracle import Case


class Told(NamedTuple):
    lens: list[int]
    starts: list[int]
    places: list[int]
    owners: list[int]
    pairs: list[int]
    odd: list[int]


def tell(
    context_lens: Sequence[int],
    query_lens: Sequence[int],
    num_tokens_padded: int,
    num_requests: int,
    block_size: int,
) -> Told:
    """Facts that an operation of one's own may state: of requests, boundaries, tokens, or nothing known."""
    lens = [c + q for c, q in zip(context_lens, query_lens, strict=True)]
    starts = [0]
    for length in lens:
        starts.append(starts[-1] + -(-length // block_size))
    places, owners, pairs = [], [], []
    for b, (context_len, query_len) in enumerate(zip(context_lens, query_lens, strict=True)):
        for i in range(query_len):
            places.append(3 * (context_len + i))
            owners.append(b)
            pairs += [b * num_requests, i]
    padding = num_tokens_padded - len(places)
    pairs += [-1] * (2 * padding)
    odd = [num_requests, *lens][:1]
    return Told(lens, starts, places + [-1] * padding, owners + [-1] * padding, pairs, odd)


def _shape(name: str) -> Callable[[Case], tuple[int, ...]]:
    sizes: dict[str, Callable[[Case], tuple[int, ...]]] = {
        "lens": lambda case: (case.num_requests_padded,),
        "starts": lambda case: (case.num_requests_padded + 1,),
        "pairs": lambda case: (case.num_tokens_padded, 2),
        "odd": lambda case: (1,),
    }
    return sizes.get(name, lambda case: (case.num_tokens_padded,))


AXES = {
    "lens": "request",
    "starts": "request_start",
    "places": "token",
    "owners": "token",
    "pairs": "token",
    "odd": "whatever",
}
TOLD = cumae.Operation(
    "told",
    tell,
    tuple(
        cumae.Output(name, "int32", axis, f"the rule of {name}", _shape(name)) for name, axis in AXES.items()
    ),
)
FAULTS = {
    "": "",
    "a length counts the empty requests": "lens",
    "a length is that of the neighbour before": "lens",
    "boundaries jump at an empty request": "starts",
    "boundaries leave out the first of several": "starts",
    "tokens of later requests are shifted": "places",
    "tokens forget their context in small chunks": "places",
    "owners skip empty requests": "owners",
}


def faulty(fault: str) -> Callable[..., None]:
    def launch(
        context_lens: torch.Tensor,
        query_lens: torch.Tensor,
        num_tokens_padded: int,
        num_requests: int,
        block_size: int,
        lens: torch.Tensor,
        starts: torch.Tensor,
        places: torch.Tensor,
        owners: torch.Tensor,
        pairs: torch.Tensor,
        odd: torch.Tensor,
    ) -> None:
        contexts, queries = context_lens.tolist(), query_lens.tolist()
        told = tell(contexts, queries, num_tokens_padded, num_requests, block_size)
        found = {name: torch.tensor(values, dtype=torch.int32) for name, values in told._asdict().items()}
        found["pairs"] = found["pairs"].reshape(-1, 2)
        num_tokens, empty = sum(queries), [b for b in range(num_requests) if queries[b] == 0]
        if fault == "a length counts the empty requests":
            found["lens"][:num_requests] += len(empty)
        elif fault == "a length is that of the neighbour before":
            found["lens"][:num_requests] = found["lens"][:num_requests].roll(int(num_requests > 2))
        elif fault == "boundaries jump at an empty request" and empty:
            found["starts"][empty[0] + 1 :] += 1
        elif fault == "boundaries leave out the first of several" and num_requests > 2:
            found["starts"][1:] -= found["starts"][1].clone()
        elif fault == "tokens of later requests are shifted" and num_requests > 2:
            found["places"][queries[0] : num_tokens] += 1
        elif fault == "tokens forget their context in small chunks" and max(queries, default=0) < 3:
            found["places"][:num_tokens] = 0
        elif fault == "owners skip empty requests":
            order = {b: i for i, b in enumerate(b for b in range(num_requests) if b not in empty)}
            owner_of = [order.get(b, -1) for b in told.owners]
            found["owners"] = torch.tensor(owner_of, dtype=torch.int32)
        for name, out in (
            ("lens", lens), ("starts", starts), ("places", places),
            ("owners", owners), ("pairs", pairs), ("odd", odd),
        ):  # fmt: skip
            out.copy_(found[name])

    return launch


@pytest.mark.parametrize("fault", FAULTS)
def test_an_operation_of_ones_own_has_the_facts_of_its_axes(fault: str) -> None:
    domain = cumae.Domain(captured=False)
    verdict = cumae.check(
        faulty(fault), TOLD, domain=domain, checks=("keeps_facts",), examples=60, save_to=None
    )
    assert verdict.ok == (fault == ""), verdict.failure
    if verdict.failure is not None:
        assert f"`{FAULTS[fault]}`" in verdict.failure.finding.message


def test_a_right_operation_of_ones_own_passes_every_check() -> None:
    domain = cumae.Domain(captured=False)
    verdict = cumae.check(faulty(""), TOLD, domain=domain, examples=40, save_to=None)
    assert verdict.ok, verdict.failure

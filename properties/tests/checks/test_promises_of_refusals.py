"""A function made for one kind of request refuses the others: the promise of its kind is offered."""

from collections.abc import Callable

import pytest
import torch

import cumae

Refuses = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], bool]
DOMAIN = cumae.Domain(padding="none", captured=False, all_but=("never_synchronises",))


def offered(refuses: Refuses, shift: int = 0) -> str:
    """Return what is offered to a function that refuses steps; else each position is off by a shift.

    ``refuses`` gets the cached and the new tokens of each request, and whether it decodes.
    """

    def positions(
        context_lens: torch.Tensor, query_lens: torch.Tensor, is_prefill: torch.Tensor, num_requests: int
    ) -> torch.Tensor:
        context_lens, query_lens = context_lens[:num_requests], query_lens[:num_requests]
        if num_requests and refuses(context_lens, query_lens, ~is_prefill[:num_requests].bool()):
            if not shift:
                raise NotImplementedError("this kind of request")
            query_lens = query_lens + shift
        lens = zip(context_lens.tolist(), query_lens.tolist(), strict=True)
        found = [position for start, count in lens for position in range(start, start + count)]
        return torch.tensor(found, dtype=torch.int64, device=context_lens.device)

    verdict = cumae.check(positions, "position_ids", domain=DOMAIN, examples=60, save_to=None)
    assert verdict.failure is not None
    assert bool(verdict.failure.finding.traceback) != bool(shift)
    return verdict.failure.finding.left_out_by


@pytest.mark.parametrize(
    ("refuses", "told"),
    [
        (lambda cached, new, decodes: bool((new > 1).any()), "Domain(max_query_len=1)"),
        (lambda cached, new, decodes: not bool(decodes.all()), "Domain(phases=('decode',))"),
        (lambda cached, new, decodes: len(new[decodes].unique()) > 1, "Domain(uniform_decodes=True)"),
        (lambda cached, new, decodes: bool((cached > 0).any()), "Domain(max_context_len=0)"),
    ],
    ids=["one token", "decodes", "uniform decodes", "nothing cached"],
)
def test_the_kind_of_request_is_offered_that_a_function_is_made_for(refuses: Refuses, told: str) -> None:
    assert offered(refuses).split("; or ")[0].split(" or ")[0] == told


def test_no_kind_of_request_is_offered_to_a_wrong_value_or_if_both_kinds_are_refused() -> None:
    assert "max_query_len" not in offered(lambda cached, new, decodes: bool((new > 1).any()), shift=1)
    assert offered(lambda cached, new, decodes: True) == ""

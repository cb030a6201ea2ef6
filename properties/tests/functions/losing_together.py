"""Calls together on a GPU, of which the fourth loses its context: run as a script, prints which one did."""

import torch
import triton
import triton.language as tl

from cumae.properties.cases.seeded import seeded_cases
from cumae.properties.operations.binding import binding_of
from cumae.properties.running.bench import POISON, Bench
from cumae.properties.running.device import prepare
from cumae.properties.running.observation import KernelRaised
from cumae.properties.running.together import observe_together

CALLS: list[int] = []


@triton.jit(do_not_specialize=["away"])
def _store(out: tl.tensor, away: tl.tensor) -> None:
    for _ in range(1_000):  # the host has launched the calls behind it by then
        tl.store(out + away * 0, tl.load(out + away * 0, volatile=True) + 1)
    tl.store(out + away, 0)


def far_in_the_fourth(
    token_to_request: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    context_lens: torch.Tensor,
    position_ids: torch.Tensor,
) -> None:
    CALLS.append(0)
    _store[(1,)](position_ids, 2**40 if len(CALLS) == 4 else 0)


def main() -> None:
    device = prepare("auto")
    binding = binding_of(far_in_the_fourth, "position_ids")
    cases = seeded_cases(3, binding.domain, binding.features)
    case = next(case for case in cases if case.num_tokens_padded > 0 and binding.why_not(case) is None)
    found = observe_together([(Bench(binding, case, device), POISON) for _ in range(9)])
    ((lost, seen),) = found.items()
    assert isinstance(seen, KernelRaised), seen
    assert "illegal memory access" in str(seen), seen
    print(lost, "of", 9)


if __name__ == "__main__":
    main()

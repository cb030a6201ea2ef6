"""Steps that differ only in size, and the number of programs in the largest step."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from cumae.oracle import Batch, Case, Options, Request
from cumae.properties.cases.domain import MAX_LEN
from cumae.properties.lint.launches import Launch
from cumae.properties.operations.binding import Binding

COUNTS = (*range(66), 127, 128, 129, 1000, 2000, 5000)
MOST_VALUES = 16  # more than the powers of two up to the largest count
MOST_TOKENS = MAX_LEN
_CONTEXT_LEN = 5
# The router of DeepSeek-V3. Of the default's experts, one form of a kernel may be for all counts.
_ROUTER = {"num_experts": 256, "num_groups": 8, "topk_group": 4, "top_k": 8}


def counting_cases(binding: Binding) -> Iterator[Case]:
    """Yield, for each count n, a step of n requests with one token each, and one request of n tokens.

    A router has the default's experts, and in one more step of the most tokens those of DeepSeek-V3.
    """
    domain = binding.domain
    size, context_len = domain.block_sizes[-1], min(_CONTEXT_LEN, domain.max_context_len)
    phase = domain.phases[0]
    narrow = "row_format" in binding.features and domain.latent_dims is None
    options = Options.of(kv_lora_rank=16, qk_rope_head_dim=8) if narrow else Options()
    for count in COUNTS:
        for num_requests, query_len in ((count, 1), (1, count)):
            blocks = -(-(context_len + query_len) // size)
            first = domain.reserved_blocks
            requests = tuple(
                Request(
                    context_len, query_len, tuple(range(first + b * blocks, first + (b + 1) * blocks)), phase
                )
                for b in range(num_requests)
            )
            case = Case(Batch(requests, size), options=options)
            if binding.why_not(case) is None:
                yield case
    if "router" in binding.features:
        routed = replace(case, options=Options.of(**_ROUTER))
        if binding.why_not(routed) is None:
            yield routed


def most_programs(recorded: Iterable[tuple[Case, list[Launch]]]) -> dict[str, tuple[int, ...]]:
    """Return the most programs of each kernel on each axis, in a step of MOST_TOKENS tokens and requests.

    Assumes that a grid grows at most in proportion to the step, from the largest step recorded.
    """
    largest: dict[str, tuple[int, tuple[int, ...]]] = {}
    for case, launches in recorded:
        size = max(min(case.num_tokens_padded, case.num_requests_padded), 1)
        for launch in launches:
            known, grid = largest.get(launch.name, (0, (1, 1, 1)))
            if size >= known:
                same = grid if size == known else (1, 1, 1)
                largest[launch.name] = size, tuple(map(max, same, launch.grid))
    return {name: tuple(n * -(-MOST_TOKENS // size) for n in grid) for name, (size, grid) in largest.items()}

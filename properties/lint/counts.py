"""Steps that differ only in size, and the number of programs in the largest step."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from cumae.oracle import Batch, Case, Options, Request
from cumae.properties.cases.domain import MAX_LEN, Domain
from cumae.properties.lint.launches import Launch
from cumae.properties.operations.binding import Binding

COUNTS = (*range(66), 127, 128, 129, 1000, 2000, 5000)
MOST_VALUES = 16  # more than the powers of two up to the largest count
MOST_TOKENS = MAX_LEN
_CONTEXT_LEN = 5
# The router of DeepSeek-V3. Of the default's experts, one form of a kernel may be for all counts.
_ROUTER = Options.of(num_experts=256, num_groups=8, topk_group=4, top_k=8)
_ROWS, _UNALIGNED_ROWS = (Options.of(kv_lora_rank=16, qk_rope_head_dim=d) for d in (8, 2))


class Size(NamedTuple):
    """The tokens and requests of a step."""

    tokens: int
    requests: int


def counting_cases(binding: Binding) -> Iterator[Case]:
    """Yield, for each count n, a step of n requests with one token each, and one request of n tokens.

    One more step of the most tokens has the experts of DeepSeek-V3 in place of the default's, and one rows
    of which only four bytes are aligned.
    """
    narrow = "row_format" in binding.features and binding.domain.latent_dims is None
    steps = [(count, _ROWS if narrow else Options()) for count in COUNTS]
    steps += [(COUNTS[-1], _UNALIGNED_ROWS)] if narrow else []
    steps += [(COUNTS[-1], _ROUTER)] if "router" in binding.features else []
    for count, options in steps:
        for num_requests, query_len in ((count, 1), (1, count)):
            case = _step(binding.domain, num_requests, query_len, options)
            if binding.why_not(case) is None:
                yield case


def _step(domain: Domain, num_requests: int, query_len: int, options: Options) -> Case:
    size, context_len = domain.block_sizes[-1], min(_CONTEXT_LEN, domain.max_context_len)
    blocks = -(-(context_len + query_len) // size)
    starts = (domain.reserved_blocks + b * blocks for b in range(num_requests))
    phase = domain.phases[0]
    requests = (Request(context_len, query_len, tuple(range(n, n + blocks)), phase) for n in starts)
    return Case(Batch(tuple(requests), size), options=options)


def most_programs(recorded: Iterable[tuple[Domain, Case, list[Launch]]]) -> dict[str, tuple[int, ...]]:
    """Return the most programs of each kernel on each axis, in a step of MOST_TOKENS tokens and requests.

    A step has no more of them than the domain promises. Assumes that a grid grows at most in proportion to
    the step, from the largest step recorded.
    """
    largest: dict[tuple[str, Size], tuple[int, tuple[int, ...]]] = {}
    for domain, case, launches in recorded:
        most = Size(min(MOST_TOKENS, domain.max_tokens), min(MOST_TOKENS, domain.max_requests))
        have = Size(case.num_tokens_padded, case.num_requests_padded)
        times = max(1, *(-(-wanted // max(one, 1)) for wanted, one in zip(most, have, strict=True)))
        for launch in launches:
            known, grid = largest.get((launch.name, most), (times, (1, 1, 1)))
            if times <= known:
                same = grid if times == known else (1, 1, 1)
                largest[launch.name, most] = times, tuple(map(max, same, launch.grid))
    found: dict[str, tuple[int, ...]] = {}
    for (name, _), (times, grid) in largest.items():
        found[name] = tuple(map(max, found.get(name, (1, 1, 1)), [times * n for n in grid]))
    return found

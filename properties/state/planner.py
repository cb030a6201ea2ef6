"""How many tokens of each request a step computes, within a domain and the engine's budget."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cumae.oracle import Phase, Request
from cumae.properties.cases.domain import Domain
from cumae.properties.state.setting import MOST_DRAFTS, Setting


@dataclass(slots=True)
class Running:
    """A live request: ``prompt_len`` tokens are prefilled before it decodes."""

    prompt_len: int
    context_len: int
    block_ids: list[int]

    @property
    def prefills(self) -> bool:
        """Whether part of the prompt is not computed yet."""
        return self.context_len < self.prompt_len

    def request(self, query_len: int) -> Request:
        """Return the request in a step that computes this number of its tokens."""
        phase: Phase = "prefill" if self.prefills else "decode"
        return Request(self.context_len, query_len, tuple(self.block_ids), phase)


class Planner:
    """Plans the steps of an engine in a domain."""

    def __init__(self, setting: Setting, domain: Domain) -> None:
        self._setting = setting
        self._domain = domain

    def able(self, sequence: Running) -> int:
        """Return the most tokens that a request can compute in a step."""
        prompt_left = sequence.prompt_len - sequence.context_len
        most = prompt_left if prompt_left > 0 else 1 + MOST_DRAFTS
        return max(0, min(most, self._setting.most_tokens - sequence.context_len, self._domain.max_query_len))

    def plan(self, running: Mapping[int, Running], wishes: Sequence[int], left: int) -> dict[int, int]:
        """Return the tokens that each request computes, by row, ``left`` at most.

        ``wishes``: by row; a row without one is idle, unless the domain needs its tokens.
        """
        able = {row: self.able(sequence) for row, sequence in running.items()}
        # Where requests without tokens are left out of a step, so many rows need one each.
        needed = 0 if self._domain.empty_requests else min(self._domain.min_requests, len(running))
        left = max(left, needed)
        planned: dict[int, int] = {}
        for i, (row, sequence) in enumerate(running.items()):
            wish = wishes[row] if row < len(wishes) else 0
            if i < needed:
                wish = max(wish, 1)
            most = max(0, min(able[row], left - max(needed - 1 - i, 0)))
            planned[row] = self._in_blocks(sequence, min(wish, most), most)
            left -= planned[row]
        missing = self._domain.min_tokens - sum(planned.values())
        for row, sequence in running.items():
            before, most = planned[row], min(able[row], planned[row] + max(left, missing, 0))
            planned[row] = self._in_blocks(sequence, min(before + max(missing, 0), most), most)
            missing -= planned[row] - before
            left -= planned[row] - before
        if self._domain.uniform_decodes or self._domain.verify_steps:
            self._level(running, planned, able)
        return planned

    def _in_blocks(self, sequence: Running, query_len: int, most: int) -> int:
        """Return the tokens of a chunk, ``most`` at most.

        If the domain promises whole prefixes, a prompt that is cut is cut at the end of a block.
        """
        left, size = sequence.prompt_len - sequence.context_len, self._setting.tokens_per_block
        if not self._domain.whole_prefixes or not 0 < query_len < left:
            return query_len
        longer = min(size, left)
        return query_len // size * size or (longer if longer <= most else 0)

    def _level(
        self, running: Mapping[int, Running], planned: dict[int, int], able: Mapping[int, int]
    ) -> None:
        """Give all decodes the longest one's number of tokens, or as many as every request can compute."""
        decodes = [row for row, sequence in running.items() if not sequence.prefills]
        if decodes:
            left = self._setting.sizes.budget - sum(n for row, n in planned.items() if row not in decodes)
            longest = max(planned[row] for row in decodes)
            if self._domain.verify_steps:
                longest = max(longest, 2)
            same = min(longest, left // len(decodes), *(able[row] for row in decodes))
            planned.update(dict.fromkeys(decodes, same))

"""Outputs with an entry for each chunk of cached context, which dialects name in their own way."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from cumae.oracle import Case, ChunkedContext
from cumae.properties.dialects.output import Output


@dataclass(frozen=True, slots=True)
class ChunkOutputs:
    """Makes the outputs of one rule. ``chunks``: its chunks of a case; ``num_requests``: those it cuts."""

    chunks: Callable[[Case], ChunkedContext]
    num_requests: Callable[[Case], int]

    def count(self, case: Case) -> int:
        """Return the number of chunks."""
        return len(self.chunks(case).chunk_totals)

    def each(self, name: str, follows: str) -> Output:
        """Return an output with an entry for each chunk."""
        return Output(
            name,
            follows=follows,
            shape=lambda case: (self.count(case),),
            expect=lambda _, inputs: getattr(self.chunks(inputs.case), follows),
            is_captured=False,
        )

    def each_request(self, name: str, follows: str, more: int = 0) -> Output:
        """Return an output with a row for each chunk: an entry for each request, and ``more`` entries."""

        def shape(case: Case) -> tuple[int, ...]:
            return (self.count(case), self.num_requests(case) + more)

        return replace(self.each(name, follows), shape=shape)

"""Plans that cut cached contexts into chunks of a workspace, judged by what every right one has in common."""

from collections.abc import Callable, Mapping, Sequence

from cumae import oracle
from cumae.oracle import AnyChunks, Case, Inputs
from cumae.properties.dialects import Output
from cumae.properties.operations.operation import Operation

Size = Callable[[Case], int]


def _workspace(case: Case) -> int:
    return case.workspace_tokens


def _alignment(case: Case) -> int:
    alignment: int = Inputs(case)["chunk_alignment"]
    return alignment


def any_chunks(*, workspace: Size = _workspace, alignment: Size = _alignment) -> Operation:
    """Return the operation for plans in a workspace of that many rows, whose parts begin at those multiples.

    If the alignment is not the case's own, the oracle gives the room for the parts only.
    """

    def room(case: Case) -> tuple[int, ...]:
        size = alignment(case)
        return (sum(-(-request.context_len // size) for request in case.batch.requests),)

    def faults(inputs: Inputs, outputs: Mapping[str, list[int]]) -> Sequence[str]:
        missing = [name for name in AnyChunks._fields if name not in outputs]
        if missing:
            return [f"`{missing[0]}` is not among the outputs: a part is judged by all four"]
        case = inputs.case
        plan = AnyChunks(*(outputs[name] for name in AnyChunks._fields))
        sizes = workspace(case), alignment(case), inputs["world"], inputs["interleave"]
        return oracle.chunk_faults(plan, inputs["context_lens"], *sizes)

    def of_part(name: str, rule: str) -> Output:
        return Output(name, "int32", "chunk_part", rule, shape=room)

    return Operation(
        "any_chunks",
        oracle.any_chunks if alignment is _alignment else _parts_of_one_token,
        (
            of_part("part_chunk", "the chunk that holds the part, counted from 0; -1 behind the parts"),
            of_part("part_request", "the request of the part; -1 behind the parts"),
            of_part("part_start", "the part's first cached position, aligned; -1 behind the parts"),
            of_part("part_stop", "one past its last cached position; -1 behind the parts"),
        ),
        frozenset({"workspace", "shared_workspace", "world", "interleave"}),
        "the parts of a request are its cached positions in order; the rows of a chunk fit the workspace",
        judge=faults,
        unattended="attention here reads cached context through chunked_context, whose plan is one of these",
    )


def _parts_of_one_token(context_lens: Sequence[int]) -> AnyChunks:
    """Return a part for each cached token, each in a chunk of its own."""
    parts = [(b, position) for b, context_len in enumerate(context_lens) for position in range(context_len)]
    requests, starts = [b for b, _ in parts], [position for _, position in parts]
    return AnyChunks([*range(len(parts))], requests, starts, [start + 1 for start in starts])


ANY_CHUNKS = any_chunks()

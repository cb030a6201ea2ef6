"""Answers of operations on a case, from their oracles or from other functions."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from cumae.oracle import Case, Inputs, LatentLayout, Options, any_schedule, latent_layout
from cumae.properties.operations import OPERATIONS

Lists = Mapping[str, Any]
Answer = Callable[[Inputs], Lists]
NO_PART = {name: operation.unattended for name, operation in OPERATIONS.items() if operation.unattended}
"""Operations that attention of the step does not depend on, and why."""
_NEUTRAL = Options()
ROW_DIM = 8
"""Elements of a latent row in the path: ``LATENT_DIM + ROPE_DIM`` of the oracle."""


def answer_of(oracle: Callable[..., Any]) -> Answer:
    """Return the answer of a function with the parameters and the named results of an oracle.

    ``shape`` and ``strides`` are those of the cache, as ``latent_layout`` takes them.
    """

    def answer(inputs: Inputs) -> Lists:
        if oracle_takes_a_shape(oracle):
            shape, strides = cache_shape(inputs.case)
            answered: Lists = oracle(shape=shape, strides=strides)._asdict()
        else:
            answered = inputs.call(oracle)._asdict()
        return answered

    return answer


@lru_cache(maxsize=1024)
def _latent_layout(shape: tuple[int, ...], strides: tuple[int, ...]) -> LatentLayout:
    return latent_layout(shape, strides)


def oracle_takes_a_shape(oracle: Callable[..., Any]) -> bool:
    """Return whether a function takes the shape and strides of the cache."""
    return "strides" in oracle.__code__.co_varnames[: oracle.__code__.co_argcount]


def cache_shape(case: Case) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return shape and strides of the dense cache ``[num_blocks, 1, block_size, ROW_DIM]`` of a rank."""
    size = case.batch.block_size
    return (case.num_cache_blocks, 1, size, ROW_DIM), (size * ROW_DIM, size * ROW_DIM, ROW_DIM, 1)


def right_answers() -> dict[str, Answer]:
    """Return the default answer of each operation: its oracle.

    ``any_schedule`` has the sparse schedule, because its oracle gives only the room.
    """
    own = {name: op.oracle for name, op in OPERATIONS.items() if name not in NO_PART}
    answers = {name: answer_of(oracle) for name, oracle in own.items() if oracle is not any_schedule}
    return answers | {
        "any_schedule": answers["sparse_schedule"],
        "latent_layout": lambda inputs: _latent_layout(*cache_shape(inputs.case))._asdict(),
    }


def asked(
    name: str, case: Case, previous: Case | None, rank: int, known: Mapping[str, Any] | None = None
) -> Inputs:
    """Return the inputs of an operation on a rank, with neutral options outside its features.

    ``known``: inputs answered by another operation.
    """
    features = OPERATIONS[name].features if name in OPERATIONS else frozenset()
    hidden = {"kernel_block_size", "token_padding", "dummy_request"} - features
    wanted = {"rank": rank, **{name: _NEUTRAL.value(name) for name in hidden}}
    options = {name: value for name, value in wanted.items() if case.options.value(name) != value}
    if options:
        case = replace(case, options=case.options.having(**options))
    if "row_index" not in features and case.layout.row_index is not None:
        case = case.laid_out(row_index=None)
    return Inputs(case, previous, known)

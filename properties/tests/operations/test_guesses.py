"""Parameters that cannot be filled: the name that is meant, or the dialect that they are written in."""

from collections.abc import Callable
from typing import Any

import pytest

from cumae import Domain, check
from cumae.properties.operations.binding import binding_of


def in_vllms_words(
    query_start_loc: Any, positions: Any, block_table: Any, block_size: Any, slot_mapping: Any
) -> None:
    """Named as vLLM names its arguments."""


def almost_in_vllms_words(query_start_loc: Any, positions: Any, colour: Any, slot_mapping: Any) -> None:
    """One parameter is nobody's."""


def misspelt(context_len: Any, slot_mapping: Any) -> None:
    """A singular for a plural."""


class Kept:
    """A class whose constructor and call are written in vLLM's words."""

    def __init__(self, max_num_batched_tokens: int, device: Any) -> None:
        """Nothing to keep."""

    def __call__(self, query_start_loc: Any, positions: Any, slot_mapping: Any) -> None:
        """Named as vLLM names its arguments."""


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (
            in_vllms_words,
            r"'query_start_loc' \(all of these are vllm's: --dialect vllm\?\), must be",
        ),
        (
            almost_in_vllms_words,
            r"'query_start_loc' \(all but colour are vllm's: --dialect vllm\?\), ",
        ),
        (misspelt, r"'context_len' \(did you mean 'context_lens'.*\?\), must be an output of slot_mapping"),
    ],
)
def test_what_cannot_be_filled_is_guessed(function: Callable[..., Any], said: str) -> None:
    with pytest.raises(ValueError, match=f"^parameter = {said}"):
        binding_of(function, "slot_mapping")


def test_a_parameter_that_resembles_nothing_gets_no_hint() -> None:
    def strange(colour: Any, slot_mapping: Any) -> None:
        return None

    with pytest.raises(ValueError, match=r"^parameter = 'colour', must be an output of slot_mapping"):
        binding_of(strange, "slot_mapping")


def test_the_right_dialect_is_not_guessed_away() -> None:
    def odd(query_start_loc: Any, positions: Any, slot_mappin: Any) -> None:
        return None

    with pytest.raises(ValueError, match=r"^parameter = 'slot_mappin' \(did you mean 'slot_mapping'"):
        binding_of(odd, "slot_mapping", "vllm")


def test_unknown_operations_dialects_checks_and_promises_get_a_hint() -> None:
    with pytest.raises(ValueError, match=r"operation = 'slot_maping' \(did you mean 'slot_mapping'\?\)"):
        check(in_vllms_words, "slot_maping", dialect="vllm")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"dialect = 'vlm' \(did you mean 'vllm'\?\)"):
        check(in_vllms_words, "slot_mapping", dialect="vlm")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"check = 'agree' \(did you mean 'agrees'\?\)"):
        check(in_vllms_words, "slot_mapping", dialect="vllm", checks=["agree"])  # type: ignore[list-item]
    with pytest.raises(ValueError, match=r"block_size = 16 \(did you mean 'block_sizes'"):
        Domain(block_size=16)

"""Masks of elements: a row is marked if any of its bytes is."""

import numpy as np
import pytest

from cumae.properties.comparing.masks import elements


@pytest.mark.parametrize("share", [0.0, 0.05, 1.0])
@pytest.mark.parametrize("row_bytes", [0, 1, 3, 8, 12, 16, 40])
def test_a_row_is_marked_if_any_of_its_bytes_is(row_bytes: int, share: float) -> None:
    words = np.random.default_rng(row_bytes).random((200, row_bytes)) < share
    assert elements(words).tolist() == words.any(axis=-1).tolist()
    assert elements(words[::2]).tolist() == words[::2].any(axis=-1).tolist()


def test_a_mask_of_single_words_is_that_of_elements() -> None:
    words = np.array([True, False, True])
    assert elements(words).tolist() == [True, False, True]

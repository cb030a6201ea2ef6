"""A copy of many short rows, taken as one list of words."""

import triton
import triton.language as tl


@triton.jit
def copy_word_list(
    begin: tl.tensor,
    target: tl.tensor,
    num_words: tl.tensor,
    WORD: tl.constexpr,
    WORDS_OF_ACCESS: tl.constexpr,
    ROWS: tl.constexpr,
    VECTORS: tl.constexpr,
) -> None:
    """Copy rows of few words as one list, which is stored 16 bytes at a time.

    begin: of each row, the address at which the list would begin if it went on there as it does in this row.
    """
    # ROWS is a multiple of the words that are stored at once, and so is the number of all words.
    num_in_all = ROWS * num_words
    for i_word in range(0, num_in_all, VECTORS * WORDS_OF_ACCESS):
        o_first = i_word + tl.arange(0, VECTORS) * WORDS_OF_ACCESS
        # Exact for rows as short as these; a division of integers would take longer.
        i_row = ((o_first + 0.5) * (1.0 / num_words)).to(tl.int32)
        here = tl.gather(begin, tl.minimum(i_row, ROWS - 1), 0)
        there = tl.gather(begin, tl.minimum(i_row + 1, ROWS - 1), 0)
        o_word = o_first[:, None] + tl.arange(0, WORDS_OF_ACCESS)[None, :]
        is_here = o_word < ((i_row + 1) * num_words)[:, None]
        address = tl.where(is_here, here[:, None], there[:, None])
        address = address + o_word * (WORD.primitive_bitwidth // 8)
        m_access = (o_first < num_in_all)[:, None]
        words = tl.load(address.to(tl.pointer_type(WORD)), mask=m_access, other=0)
        tl.store(target + o_word, words, mask=m_access)

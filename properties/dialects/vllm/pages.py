"""vLLM's block tables of a step, runner V2, and its list of pages for FlashInfer."""

from typing import Any

from cumae.oracle import GARBAGE, UNTOUCHED, Case, Inputs, page_table
from cumae.properties.dialects.dialect import Input
from cumae.properties.dialects.held import ints
from cumae.properties.dialects.output import Output


def _num_blocks(inputs: Inputs) -> list[Any]:
    """Return the blocks that each row of the table holds; no request has the other rows."""
    table = inputs["block_table"]
    return [next((j for j, entry in enumerate(row) if entry is GARBAGE), len(row)) for row in table]


def _width(case: Case) -> int:
    table = Inputs(case)["block_table"]
    return len(table[0]) if table else 0


def _reach(case: Case) -> int:
    """Return how many tokens before the first new one are seen; 0 for no limit, and on several ranks."""
    return max(case.options.keys.window - 1, 0) if case.batch.world == 1 else 0


def _expect_rows(answer: Any, inputs: Inputs) -> list[Any]:
    """Return rows of all held blocks, with the null block before the window and on padding.

    Entries of a live row behind its blocks keep their values.
    """
    case, width = inputs.case, _width(inputs.case)
    rows, size = inputs["row_index"], case.kernel_block_size
    held = _num_blocks(inputs)
    counts = [held[row] if row >= 0 else 0 for row in rows[: inputs["num_requests"]]]
    lens = [count * size for count in counts] + [0] * case.layout.num_padding_requests
    reach = _reach(case)
    lengths = (inputs["context_lens"], lens, len(counts))
    window = reach + 1 if reach else 0
    found: list[Any] = page_table(inputs["block_table"], rows, *lengths, size, width, window).page_table
    for b, count in enumerate(counts):
        found[b * width + count : (b + 1) * width] = [UNTOUCHED] * (width - count)
    return found


PAGE_INPUTS = {
    "num_blocks": Input(lambda inputs: ints(_num_blocks(inputs), "int32", inputs.case.layout.garbage)),
    "sliding_window_reach": Input(lambda inputs: _reach(inputs.case), ("window",)),
}
PAGE_OUTPUTS = {
    "page_table": (
        Output(
            "input_block_table",
            follows="page_table",
            axis="table_row",
            rule="every page that a request holds, in order, 0 in front of a window; 0 for a padded request;"
            " columns behind the pages keep their values",
            shape=lambda case: (case.num_requests_padded, _width(case)),
            expect=_expect_rows,
            is_captured=False,
        ),
    ),
    "kv_indices": (
        Output("paged_kv_indptr", follows="kv_indptr", is_captured=False),
        Output("paged_kv_indices", follows="kv_indices", is_captured=False),
        Output("paged_kv_last_page_len", follows="kv_last_page_len", is_captured=False),
    ),
}

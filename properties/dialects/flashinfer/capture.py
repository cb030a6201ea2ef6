"""Convert a step from FlashInfer's tensors to a case."""

from typing import Any

from cumae.oracle import Batch, Case, Layout, Request
from cumae.oracle.model.rules import inside, require, require_int
from cumae.properties.dialects.tensor_values import read_count, read_ints, read_starts, require_given


def capture(
    qo_indptr: Any = None,
    paged_kv_indptr: Any = None,
    paged_kv_indices: Any = None,
    paged_kv_last_page_len: Any = None,
    page_size: Any = None,
    nnz: Any = None,
) -> Case:
    """Return the case that FlashInfer's tensors describe. Raises ``ValueError`` if they are not a valid step.

    ``nnz``: rows of the flattened step, padding included. FlashInfer has no phases: requests become prefills.
    Padded requests look like empty ones, and become empty requests.
    """
    needed = {"qo_indptr": qo_indptr, "paged_kv_indptr": paged_kv_indptr}
    needed |= {"paged_kv_indices": paged_kv_indices, "paged_kv_last_page_len": paged_kv_last_page_len}
    require_given("every step of flashinfer", {**needed, "page_size": page_size})
    starts = read_starts("qo_indptr", qo_indptr)
    pages = read_starts("paged_kv_indptr", paged_kv_indptr)
    require(
        len(pages) == len(starts), "paged_kv_indptr: number", len(pages), f"be {len(starts)}, as qo_indptr"
    )
    count, size = len(starts) - 1, read_count("page_size", page_size, 1, 2**20)
    indices = read_ints("paged_kv_indices", paged_kv_indices)
    require(len(indices) >= pages[-1], "paged_kv_indices: number", len(indices), f"be >= {pages[-1]}")
    last = read_ints("paged_kv_last_page_len", paged_kv_last_page_len, count)
    requests = []
    for b in range(count):
        num_pages, query_len = pages[b + 1] - pages[b], starts[b + 1] - starts[b]
        seq_len = 0
        if num_pages:
            require_int(f"paged_kv_last_page_len[{b}]", last[b], 1, size)
            seq_len = (num_pages - 1) * size + last[b]
        rule = f"be <= {seq_len}, the tokens its pages hold"
        require(query_len <= seq_len, f"qo_indptr: length of request {b}", query_len, rule)
        for j in range(pages[b], pages[b + 1]):
            require_int(f"paged_kv_indices[{j}]", indices[j], 0)
        with inside(f"requests[{b}]."):
            requests.append(Request(seq_len - query_len, query_len, tuple(indices[pages[b] : pages[b + 1]])))
    padded = starts[-1] if nnz is None else read_count("nnz", nnz)
    require(padded >= starts[-1], "nnz", padded, f"be >= {starts[-1]}, the tokens of the step")
    layout = Layout(num_padding_tokens=padded - starts[-1], num_spare_columns=len(indices) - pages[-1])
    return Case(Batch(tuple(requests), size), layout)

"""Steps whose tensors SGLang's tests work by hand."""

from cumae.oracle import Batch, Case, Layout, Options, Request

# A chunk behind a prefix, an empty request, a decode beside them; pages of 4 tokens.
MIXED = Case(
    Batch((Request(3, 2, (7, 2)), Request(0, 0), Request(4, 1, (5, 9), "decode")), 4),
    Layout(num_padding_tokens=2, num_padding_requests=1, num_spare_columns=1),
)
# Two requests verify two drafts each; pages of 2 tokens; the graph has room for a third.
VERIFY = Case(
    Batch((Request(3, 2, (4, 1, 6), "decode"), Request(5, 2, (2, 3, 8, 5), "decode")), 2),
    Layout(num_padding_tokens=2, num_padding_requests=1, row_index=(4, 0), num_spare_rows=1),
)
# Two decodes; pages of 3 tokens; the graph has room for a third.
DECODE = Case(
    Batch((Request(3, 1, (2, 1), "decode"), Request(1, 1, (4,), "decode")), 3),
    Layout(num_padding_tokens=1, num_padding_requests=1),
)
# Of three tokens the last selects none first, and a position that no request has is none here.
GAPS = Case(Batch((Request(0, 3, (7,)),), 4), options=Options.of(topk=4))

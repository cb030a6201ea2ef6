"""The row of ``draft_steps``: where a step with drafts samples."""

from cumae import oracle
from cumae.properties.dialects import Output
from cumae.properties.operations.operation import Operation

DRAFT_STEPS = Operation(
    "draft_steps",
    oracle.draft_steps,
    (
        Output(
            "logits_indices",
            "int32",
            "logit",
            "the last d + 1 rows of each request with d drafts, request by request, then 0",
        ),
        Output(
            "target_logits_indices",
            "int32",
            "draft",
            "the first d of each request's entries of `logits_indices`, as indices into it, then 0",
        ),
        Output(
            "bonus_logits_indices",
            "int32",
            "request",
            "the last of a request's entries of `logits_indices`, as an index into it, 0 if it has none",
        ),
        Output(
            "cu_num_draft_tokens",
            "int32",
            "request",
            "the drafts up to and including the request, the total on padding",
        ),
    ),
    frozenset({"max_drafts"}),
    "a request with d drafts samples at its last d + 1 rows: d verify the drafts, the last is the bonus",
    ("cumae.gpu_impl:write_draft_steps",),
    unattended="its indices say which rows are sampled after attention; no token's keys depend on them",
)

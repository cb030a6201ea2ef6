"""The features of a router of tokens to experts, each a row as in `features`."""

from cumae.oracle import BIAS_KINDS, FLOAT_DTYPES, LOGITS_KINDS
from cumae.properties.cases.feature import BOTH, Feature, row
from cumae.properties.cases.router_values import SERVED, bias_dtype, router_shape

ROUTER: tuple[Feature, ...] = (
    row(
        "options",
        "scaling_thousandths",
        lambda d: d.pick("scaling_thousandths", (1000, 2500, 2827, 1, 16000, 1446)),
        "scaling_factor",
        small=({"scaling_thousandths": 2500},),
    ),
    row(
        "options",
        "renormalize",
        lambda d: d.flag("renormalize", 25, odd=False),
        engines=BOTH,
        small=({"renormalize": False},),
    ),
    row(
        "options",
        "num_experts num_groups topk_group top_k",
        router_shape,
        "router",
        small=(
            {"logits_kind": "ties"},
            {"logits_kind": "negative", "num_groups": 4, "topk_group": 2, "top_k": 3},
            {"logits_kind": "nan_and_inf", "logits_seed": 11, "top_k": 3},
            {"logits_kind": "nan_and_inf", "logits_seed": 11, "top_k": 3, "bias_kind": "negative"},
            {"bias_kind": "very_low", "num_groups": 4, "topk_group": 2, "top_k": 3},
        ),
        simpler=(
            (2, 1, 1, 1),
            (3, 1, 1, 2),
            (4, 2, 1, 1),
            (4, 2, 1, 2),
            (6, 3, 2, 2),
            (8, 2, 1, 2),
            (8, 4, 2, 2),
        ),
        shown_by=("bias", "logits"),
        engines=SERVED,
    ),
    row(
        "options",
        "logits_dtype",
        lambda d: d.pick("logits_dtype", FLOAT_DTYPES),
        "router",
        engines=FLOAT_DTYPES,
    ),
    row("options", "bias_dtype", bias_dtype, "router", engines=FLOAT_DTYPES),
    row(
        "options",
        "logits_kind",
        lambda d: d.pick("logits_kind", LOGITS_KINDS),
        "router",
        engines=LOGITS_KINDS,
    ),
    row(
        "options",
        "bias_kind",
        lambda d: d.pick("bias_kind", (*BIAS_KINDS[:1] * (len(BIAS_KINDS) - 2), *BIAS_KINDS)),
        "router",
        engines=BIAS_KINDS,
    ),
    row("options", "logits_seed", lambda d: d.integer("logits_seed", 0, 999), "router"),
)

"""Promises that a real function may need, in the order in which a report tells them."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from cumae.oracle import Case
from cumae.oracle.model.router import Router
from cumae.oracle.router_logits import LOGITS_KINDS


class Narrower(NamedTuple):
    """A promise that a real function may need: its value, or the value for a case.

    ``if_odd``: the cases that make one think of it. ``if_enough``: whether it is told only where it leaves
    out every case on which a function failed, and no other promise of the same name does. ``if_alone``: and
    no other promise at all. ``of``: what the function must see for it, be made for, or do; "" if it may help
    any.
    """

    name: str
    value: Any | Callable[[Case], Any]
    if_odd: Callable[[Case], bool] = lambda case: True
    if_enough: bool = False
    if_alone: bool = False
    of: str = ""


ODD_LOGITS = (
    ("nan_and_inf",),
    ("huge_and_tiny",),
    ("negative",),
    ("low_biases",),
    ("negative", "low_biases"),
    ("large_biases",),
    ("ties",),
    ("equal",),
)
"""Kinds of logits that a router may not be made for; those of choices below 0 alone and together."""
SMALL_ID = 2**16 - 1
"""A largest block id that a function may promise."""
SIZES = ((16, 32, 64, 128, 256), (64,), (128,), (16,))
"""Block sizes of engines, and those that a function may be made for alone."""
REFUSES = "refuses"
"""What a function does that raises: it may be made for one kind of request. A wrong value tells of none."""
LONG = 4096
"""Most cached tokens of a request that nobody calls long."""


def _longest(case: Case) -> int:
    """Return the most cached tokens of a case's requests."""
    return max((request.context_len for request in case.batch.requests), default=0)


def _but(odd: Sequence[str]) -> tuple[str, ...]:
    """Return the kinds of logits but these."""
    return tuple(kind for kind in LOGITS_KINDS if kind not in odd)


def _is_power_of_two(number: int) -> bool:
    return number & (number - 1) == 0


def _is_odd_router(router: Router) -> bool:
    """Whether a number of experts is no power of two, or a single weight is made 1: many gates keep it."""
    if router.top_k == 1 and router.renormalize:
        return True
    return not (_is_power_of_two(router.num_experts) and _is_power_of_two(router.top_k))


NARROWER = (
    Narrower("min_requests", 1),
    Narrower("min_tokens", 1),
    Narrower("empty_requests", False),
    Narrower("order", "decodes_first"),
    Narrower("order", "prefills_first"),
    Narrower("padded_together", True),
    Narrower("padding", "none"),
    Narrower("rowless_requests", False),
    Narrower("missing_blocks", False),
    Narrower("strided", False),
    Narrower("index_dtype", ("int32",)),
    Narrower("index_dtype", ("int32", "int64")),
    Narrower("interleave", (1,), if_odd=lambda case: case.options.parallel.interleave > 1),
    Narrower("world", (1,)),
    Narrower("large_slots", False),
    Narrower("max_block_id", SMALL_ID),
    Narrower(
        "max_context_len",
        lambda case: 2 ** ((_longest(case) - 1).bit_length() - 1),
        if_odd=lambda case: _longest(case) > LONG,
        if_enough=True,
    ),
    *(
        Narrower(
            f"{kind}_scale_thousandths",
            (1_000, 500, 250, 125),
            if_odd=lambda case: case.options.heads.head_format == "fp8",
        )
        for kind in ("key", "value")
    ),
    Narrower("select_beyond", (False,)),
    Narrower("selects_fewer", (False,)),
    Narrower("renormalize", (True,)),
    Narrower("scaling_thousandths", (1_000,)),
    Narrower("logits_dtype", ("fp32",)),
    *(Narrower("logits_kind", _but(odd), if_enough="nan_and_inf" not in odd) for odd in ODD_LOGITS),
    Narrower(
        "bias_kind",
        ("as_logits",),
        if_odd=lambda case: case.options.router.bias_kind != "as_logits",
        if_enough=True,
    ),
    Narrower("page_slack", (0,)),
    Narrower("key_slack", (0,)),
    Narrower(
        "head_dims",
        ((64, 64), (128, 128)),
        if_odd=lambda case: case.options.heads.head_dim != case.options.heads.value_dim,
    ),
    Narrower(
        "num_heads",
        (1, 2, 4, 8, 16, 32, 64, 128),
        if_odd=lambda case: not _is_power_of_two(case.options.heads.num_heads),
    ),
    Narrower(
        "router_shapes",
        ((8, 2, 1, 2), (32, 1, 1, 4), (128, 1, 1, 8), (256, 8, 4, 8)),
        if_odd=lambda case: _is_odd_router(case.options.router),
    ),
    Narrower(
        "block_sizes",
        tuple(2**k for k in range(10)),
        if_odd=lambda case: not _is_power_of_two(case.batch.block_size),
        of="block_size",
    ),
    Narrower(
        "kernel_block_size", (None,), if_odd=lambda case: case.kernel_block_size < case.batch.block_size
    ),
    Narrower("num_spare_tokens", (0,)),
    Narrower("latent_dims", ((512, 64),), if_odd=lambda case: case.options.rows.qk_rope_head_dim == 0),
    Narrower(
        "min_window_columns",
        (1,),
        if_odd=lambda case: case.window_columns > max(case.options.keys.window, 1),
        of="windows",
    ),
    Narrower(
        "window",
        (1, 2, 4, 16, 128),
        if_odd=lambda case: case.options.keys.window == 0,
        if_enough=True,
        of="windows",
    ),
    *(
        Narrower(name, value, if_enough=True, if_alone=True, of=REFUSES)
        for name, value in (
            ("max_query_len", 1),
            ("phases", ("decode",)),
            ("uniform_decodes", True),
            ("max_context_len", 0),
        )
    ),
    Narrower("max_context_len", 0, if_enough=True, if_alone=True, of="whole_sequences"),
    *(
        Narrower(
            "block_sizes",
            sizes,
            if_odd=lambda case: case.batch.block_size not in SIZES[0],
            if_enough=True,
            if_alone=True,
            of="block_size",
        )
        for sizes in SIZES
    ),
    Narrower("whole_prefixes", True, if_enough=True, if_alone=True),  # it leaves out most later chunks
)

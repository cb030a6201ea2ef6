"""The features of selected positions, each a row as in `features`."""

from cumae.oracle import SELECTION_ORDERS
from cumae.properties.cases.feature import BOTH, Feature, row

SELECTIONS: tuple[Feature, ...] = (
    row(
        "options",
        "prefill_workspace",
        lambda d: d.flag("prefill_workspace", 40),
        engines=BOTH,
        small=(
            {"prefill_workspace": True, "topk": 3},
            {"prefill_workspace": True, "rank": 1, "world": 2},
        ),
        shown_by=("workspace_ids", "workspace_starts"),
    ),
    row(
        "options",
        "workspace_gap",
        lambda d: d.pick("workspace_gap", (0, 0, 1, 64)) if d.values["prefill_workspace"] else 0,
        "prefill_workspace",
        needs={"prefill_workspace": True},
    ),
    row(
        "options",
        "select_beyond",
        lambda d: d.flag("select_beyond", 50),
        engines=BOTH,
        small=({"select_beyond": True, "topk": 3},),
        shown_by=("selected_positions",),
    ),
    row(
        "options",
        "selected_first",
        lambda d: d.flag("selected_first", 50),
        engines=BOTH,
        small=({"selected_first": True, "topk": 4},),
        shown_by=("selected_positions",),
    ),
    row(
        "options",
        "selects_fewer",
        lambda d: d.flag("selects_fewer", 25),
        engines=BOTH,
        small=({"selects_fewer": True, "topk": 3},),
        shown_by=("selected_positions",),
    ),
    row(
        "options",
        "selection_order",
        lambda d: d.pick("selection_order", ("mixed", *SELECTION_ORDERS)),
        engines=SELECTION_ORDERS,
        small=({"selection_order": "rising", "topk": 3}, {"selection_order": "alike", "topk": 2}),
        shown_by=("selected_positions", "topk_indices"),
    ),
    row(
        "options",
        "selection_seed",
        lambda d: d.pick("selection_seed", (0, 0, 1, 2, 3, 4, 5)),
        "selection_order",
        small=(
            {"selection_seed": 1, "topk": 3},
            {"selection_seed": 1, "topk": 3, "selects_fewer": True},
        ),
    ),
)

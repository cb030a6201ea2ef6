"""All kinds of steps that a tour shows: what builds each, and its sizes."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from cumae.oracle import PAGE_ORDERS, Case
from cumae.properties.steps.around_options import (
    AROUND_SELECTIONS,
    AROUND_WINDOWS,
    BEYOND_SELECTIONS,
    BEYOND_WINDOWS,
    IN_ROUNDS,
)
from cumae.properties.steps.arrivals import ARRIVALS
from cumae.properties.steps.branches import BRANCHES
from cumae.properties.steps.busy_steps import BUSY
from cumae.properties.steps.captured_steps import CAPTURED
from cumae.properties.steps.circumstances import CIRCUMSTANCES
from cumae.properties.steps.coincidences import COINCIDING
from cumae.properties.steps.crossed import CROSSED
from cumae.properties.steps.crossed_drafts import CROSSED_DRAFTS
from cumae.properties.steps.crowds_of_prompts import CROWDS
from cumae.properties.steps.deep_heads import DEEP_HEADS
from cumae.properties.steps.documents import DOCUMENTS
from cumae.properties.steps.each_format import EACH_PAGE, EACH_ROUTER, EACH_ROW
from cumae.properties.steps.engine_steps import (
    deep_in_blocks_of,
    far_in_rows,
    for_all_workers,
    in_any_blocks_of,
    in_blocks_of,
    in_chunks,
    in_equal_shares,
    in_order,
    in_rows_of,
    in_runs_of,
    in_windows,
    routed,
    selecting,
)
from cumae.properties.steps.equal_steps import EQUAL
from cumae.properties.steps.few_requests import FEW
from cumae.properties.steps.full_budgets import FULL
from cumae.properties.steps.headed_steps import OF_HEADS
from cumae.properties.steps.ladder import Ladder
from cumae.properties.steps.large_buffers import LARGE_BUFFERS
from cumae.properties.steps.meeting_steps import MEETING
from cumae.properties.steps.mixed_steps import MIXED
from cumae.properties.steps.odd_values import ODD
from cumae.properties.steps.ordinary import ORDINARY
from cumae.properties.steps.own_heads import OWN_HEADS
from cumae.properties.steps.production import (
    RUNS,
    few_of_many,
    for_nobody,
    holey_decodes,
    identical,
    in_a_row,
    past_the_table,
    run_and_others,
    with_one_far,
    with_one_prompt,
)
from cumae.properties.steps.rounds_of_ranks import ROUNDS
from cumae.properties.steps.small_pages import SMALL
from cumae.properties.steps.steps_of_one_kind import (
    DRAFTS,
    begun_pages,
    decodes,
    filled_pages,
    first_alone,
    first_chunks,
    full_columns,
    idle_around,
    last_alone,
    long_among_idle,
    single,
    uneven,
    verified,
)

Build = Callable[[Ladder, int], Case | None]
ENGINE_BLOCKS = (1, 8, 32, 64, 128, 256, 512)
"""Block sizes that engines run beside 16."""
RARE_BLOCKS = (48, 96, 384, 784, 880, 1_328)
"""Multiples of 16 that no case draws and that are no powers of two. In fp32, a product with the reciprocal of
880 or of 1,328 gives a wrong quotient for some positions."""
ODD_BLOCKS, DEPTHS = (24, 656, 1_056), (140_003, 33_793)
"""Block sizes that are no powers of two, as of hybrid models, and the depths of contexts in them."""
FAR_IN_16 = 600_011
"""Cached tokens in pages of 16, of which a request has more than 15 bits count."""
LARGE_CHUNKS = (64, 128, 256)
"""Smaller chunks are drawn often enough with requests of several whole ones."""
COUNTS = (1_025, 257, 65)
"""One more than whole tiles of decodes."""
POWERS = (512, 128)
QUIET = (131, 67)
AMONG = (261, 133, 69)
"""Decodes beside a few long requests: more than a tile of them."""
LENGTHS = (4_101, 1_029, 261)
WINDOWED = (1_040, 272)
ROUTED = "routed to 256 experts"
KINDS: Mapping[str, tuple[Build, Sequence[int]]] = {
    "in rows of fp8": (partial(in_rows_of, "fp8", False), (8_200, 2_051, 530)),
    "far in rows of fp8": (far_in_rows, (32_800, 8_200)),
    "in rows of fp8, scales in powers of two": (partial(in_rows_of, "fp8", True), (1_100, 530)),
    "in rows of fp16": (partial(in_rows_of, "fp16", False), (530, 130)),
    "in rows of fp32": (partial(in_rows_of, "fp32", False), (1_201, 530, 130)),
    "decodes": (decodes, COUNTS),
    "verified": (verified, (515, 254, 62)),
    "first chunks": (first_chunks, POWERS),
    "identical decodes": (partial(identical, ("decode", 16, 1)), (259, *QUIET)),
    "identical drafts": (partial(identical, ("decode", 20, DRAFTS + 1)), QUIET),
    "identical prompts": (partial(identical, ("prefill", 0, 7)), QUIET),
    "identical long decodes": (partial(identical, ("decode", 1_023, 1)), (*QUIET, 9)),
    "identical long prompts": (partial(identical, ("prefill", 0, 513)), (19, 9)),
    "one far": (with_one_far, (69, 37)),
    **OF_HEADS,
    **ORDINARY,
    "few of many": (few_of_many, (503, 119)),
    "for nobody": (partial(for_nobody, 10), (1_029, 259, 67)),
    "for no request": (partial(for_nobody, 0), (259, 67)),
    **{f"{kind}, then others": (partial(run_and_others, kind), AMONG) for kind in RUNS},
    "others, then decodes": (partial(run_and_others, "decodes", behind=False), AMONG),
    "decodes, then others, whose keys count": (partial(run_and_others, "decodes", scope="prefill"), AMONG),
    "pages in a row": (in_a_row, (67, 19)),
    "slots in a row": (partial(in_a_row, block_size=1), (67, 19)),
    "a prompt of all": (partial(with_one_prompt, 3), (131, 67, 35)),
    "pages of 67": (partial(with_one_prompt, 67), (16, 9)),
    "pages of 19": (partial(with_one_prompt, 19), (65, 33, 5)),
    "chunks behind one prompt": (partial(with_one_prompt, 19, chunks=True), (65, 33, 5)),
    "pages of 131": (partial(with_one_prompt, 131), (2, 1)),
    "pages of 259": (partial(with_one_prompt, 259), (1,)),
    "decodes with holes": (partial(holey_decodes, False), QUIET),
    "windows with holes": (partial(holey_decodes, True), QUIET),
    "past the table": (past_the_table, (67, 9)),
    "begun pages": (begun_pages, QUIET),
    "filled pages": (filled_pages, QUIET),
    "first alone": (first_alone, QUIET),
    "last alone": (last_alone, QUIET),
    "idle around": (idle_around, (1_029, 519, 263, 131)),
    "long among idle ones": (long_among_idle, (8_205, 2_053, 261)),
    "uneven": (partial(uneven, 2), (21, 3)),
    "uneven with idle ones": (partial(uneven, 0), (21, 3)),
    "single": (single, LENGTHS),
    "full columns": (full_columns, (1_024, 256)),
    "in windows": (in_windows, WINDOWED),
    **{f"in blocks of {size}": (partial(in_blocks_of, size), LENGTHS) for size in ENGINE_BLOCKS},
    **{f"in blocks of {size}": (partial(in_any_blocks_of, size), LENGTHS[1:]) for size in RARE_BLOCKS},
    **{f"deep in blocks of {size}": (partial(deep_in_blocks_of, size), DEPTHS) for size in ODD_BLOCKS},
    "far in blocks of 16": (partial(deep_in_blocks_of, 16), (FAR_IN_16,)),
    **{f"in runs of {size}": (partial(in_runs_of, size), (1_029, 261)) for size in (64, 256)},
    **{f"in chunks of {size}": (partial(in_chunks, False), (size,)) for size in LARGE_CHUNKS},
    **{f"in chunks of {size} positions": (partial(in_chunks, True), (size,)) for size in LARGE_CHUNKS},
    **{f"in {n} shares": (in_equal_shares, (n,)) for n in (41, 47)},
    "selections of 512 keys": (partial(selecting, 512), (128, 64)),
    "selections of 2,048 keys": (partial(selecting, 2_048), (72, 16)),
    "items of all workers": (for_all_workers, (264, 132)),
    ROUTED: (partial(routed, (256, 8, 4, 8)), (145, 67)),
    "a long prompt routed to 256 experts": (
        partial(routed, (256, 8, 4, 8), logits="repeated"),
        (8_200, 2_060),
    ),
    "a long prompt routed to 384 experts": (
        partial(routed, (384, 1, 1, 8), logits="repeated"),
        (8_200, 2_060),
    ),
    "routed to 64 experts": (partial(routed, (64, 1, 1, 6)), (1_031, 301, 67)),
    "routed to 64 experts in groups that all stay": (partial(routed, (64, 4, 4, 6)), (67, 37)),
    "routed without biases": (partial(routed, (256, 8, 4, 8), logits="zero_bias"), (67, 37)),
    "routed by large biases": (partial(routed, (256, 8, 4, 8), logits="large_biases"), (67, 37)),
    "routed alone": (partial(routed, (256, 8, 4, 8), dtype="bf16"), (1,)),
    "routed in bf16, many": (partial(routed, (256, 8, 4, 8), dtype="bf16"), (2_051, 530, 67)),
    "routed in bf16": (partial(routed, (384, 1, 1, 8), dtype="bf16"), (37,)),
    "routed to all that stay": (partial(routed, (8, 4, 2, 4)), (9,)),
    "routed to neighbours": (partial(routed, (256, 1, 1, 8), logits="clustered"), (67, 37)),
    "routed by ties": (partial(routed, (384, 1, 1, 8), logits="ties"), (37,)),
    "routed by NaN": (partial(routed, (256, 8, 4, 8), logits="nan_and_inf"), (67, 37)),
    "routed to 160 experts": (partial(routed, (160, 8, 3, 6)), (67, 37)),
    "routed to 512 experts": (partial(routed, (512, 1, 1, 10)), (131, 67)),
    "routed to 384 experts": (partial(routed, (384, 1, 1, 8)), (131, 67, 37)),
    **{f"in order {order}": (partial(in_order, order), (700, 300)) for order in PAGE_ORDERS},
    **BUSY,
    **ARRIVALS,
    **FULL,
    **MEETING,
    **BRANCHES,
    **DOCUMENTS,
    **COINCIDING,
    **EQUAL,
    **SMALL,
    **CROWDS,
    **DEEP_HEADS,
    **CAPTURED,
    **LARGE_BUFFERS,
    **ODD,
    **MIXED,
    **OWN_HEADS,
    **ROUNDS,
    **FEW,
    **CIRCUMSTANCES,
    **CROSSED,
    **CROSSED_DRAFTS,
    **BEYOND_SELECTIONS,
    **BEYOND_WINDOWS,
    **AROUND_SELECTIONS,
    **AROUND_WINDOWS,
    **IN_ROUNDS,
    **EACH_PAGE,
    **EACH_ROUTER,
    **EACH_ROW,
}
"""By name: what builds the case of a size, and the sizes; the first that is not too much is visited."""
OF_TOKENS = ("single", "a page missing in a row", *(name for name in KINDS if "routed" in name))
"""Those that differ for a function which does not see requests."""

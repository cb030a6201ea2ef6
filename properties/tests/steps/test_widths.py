"""Facts about cases with room in their tables, and with blocks, heads or rows of chosen widths."""

from cumae.properties.cases.domain import Domain
from cumae.properties.cases.features import NAMES
from cumae.properties.steps.ladder import Ladder
from cumae.properties.steps.room import roomy, spare
from cumae.properties.steps.widths import broad, large_blocks


def test_a_roomy_case_has_columns_and_rows_far_beyond_the_needed_ones_and_no_window() -> None:
    case = roomy(Ladder(Domain(), NAMES), 391)
    assert case is not None
    assert (case.layout.num_spare_columns, case.layout.num_spare_rows, case.layout.page_slack) == (
        195,
        391,
        391,
    )
    assert case.options.keys.window == 0


def test_spare_rows_are_far_more_than_the_tokens_of_their_step() -> None:
    case = spare(Ladder(Domain(), {"num_spare_tokens"}), 4_101)
    assert case is not None
    assert case.layout.num_spare_tokens == 4_101 > 100 * case.batch.num_tokens
    assert spare(Ladder(Domain(num_spare_tokens=(0, 5)), {"num_spare_tokens"}), 4_101) is None


def test_a_broad_case_has_many_tokens_and_wide_heads_or_rows() -> None:
    case = broad(Ladder(Domain(), NAMES), 8, 128, 1_100)
    assert case is not None
    heads, rows = case.options.heads, case.options.rows
    assert (heads.num_heads, heads.head_dim, heads.value_dim) == (8, 128, 128)
    assert (rows.kv_lora_rank, rows.qk_rope_head_dim) == (512, 64)
    assert case.batch.num_tokens > 1_024
    assert broad(Ladder(Domain(), {"window"}), 8, 128, 1_100) is None


def test_the_largest_blocks_of_a_domain_are_visited_and_not_drawn() -> None:
    domain = Domain()
    case = large_blocks(Ladder(domain, {"window"}))
    assert case is not None
    assert case.batch.block_size == max(domain.block_sizes) > max(domain.sizes)
    assert domain.why_not(case) is None
    assert large_blocks(Ladder(domain, {"head_format"})) is None
    assert large_blocks(Ladder(Domain(block_sizes=(16, 64)), {"window"})) is None
    assert large_blocks(Ladder(Domain(kernel_block_size=(24,)), {"kernel_block_size"})) is None


def test_the_largest_blocks_are_not_cut_for_kernels() -> None:
    case = large_blocks(Ladder(Domain(), {"kernel_block_size", "missing_blocks"}))
    assert case is not None
    assert case.kernel_block_size == case.batch.block_size == 4096

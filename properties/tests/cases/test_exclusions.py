"""The promises that a report names are those that leave the failing case out, and make sense for it."""

import pytest

from cumae.oracle import Batch, Case, Options, Request
from cumae.oracle.router_logits import LOGITS_KINDS, LogitsKind
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.exclusions import left_out_by

PLAIN = Case(Batch((Request(0, 1, (0,)),), 16))
EVEN_ROUTERS = "((8, 2, 1, 2), (32, 1, 1, 4), (128, 1, 1, 8), (256, 8, 4, 8))"
BEGUN = Case(Batch((Request(1, 1, (0,)),), 16))


def _having(**options: int) -> Case:
    return Case(PLAIN.batch, options=Options.of(**options))


def _blocks_of(size: int, **options: int) -> Case:
    return Case(Batch((Request(0, 1, (0,)),), size), options=Options.of(**options))


def _cached(context_len: int) -> Case:
    return Case(Batch((Request(context_len, 1, tuple(range(context_len // 256 + 1))),), 256))


@pytest.mark.parametrize(
    ("case", "told"),
    [
        (PLAIN, ""),
        (BEGUN, "Domain(whole_prefixes=True)"),
        (_having(head_dim=8, value_dim=16), "Domain(head_dims=((64, 64), (128, 128)))"),
        (_having(head_dim=8, value_dim=8), ""),
        (_having(kv_lora_rank=16, qk_rope_head_dim=0), "Domain(latent_dims=((512, 64),))"),
        (_having(kv_lora_rank=16, qk_rope_head_dim=8), ""),
        (_having(num_heads=6), "Domain(num_heads=(1, 2, 4, 8, 16, 32, 64, 128))"),
        (_having(num_heads=8), ""),
        (_having(top_k=3), f"Domain(router_shapes={EVEN_ROUTERS})"),
        (_having(num_experts=12), f"Domain(router_shapes={EVEN_ROUTERS})"),
        (_having(top_k=4), ""),
        (_having(top_k=1), f"Domain(router_shapes={EVEN_ROUTERS})"),
        (_having(top_k=1, renormalize=False), "Domain(renormalize=(True,))"),
        (_blocks_of(3), "Domain(block_sizes=(1, 2, 4, 8, 16, 32, 64, 128, 256, 512))"),
        (_blocks_of(4, kernel_block_size=2), "Domain(kernel_block_size=(None,))"),
        (_blocks_of(4, interleave=2), "Domain(interleave=(1,))"),
        (PLAIN.laid_out(num_spare_tokens=1), "Domain(num_spare_tokens=(0,))"),
        (_having(renormalize=False), "Domain(renormalize=(True,))"),
        (_having(scaling_thousandths=2500), "Domain(scaling_thousandths=(1000,))"),
        (_cached(4096), ""),
        (_cached(8192), "Domain(max_context_len=4096)"),
        (_cached(12_288), "Domain(max_context_len=8192)"),
    ],
)
def test_a_promise_is_named_if_it_leaves_the_case_out(case: Case, told: str) -> None:
    assert left_out_by(case, Domain()) == told


def test_whole_prefixes_are_named_only_if_no_other_case_failed() -> None:
    assert left_out_by(BEGUN, Domain(), [BEGUN]) == "Domain(whole_prefixes=True)"
    assert left_out_by(BEGUN, Domain(), [BEGUN, PLAIN]) == ""


def test_a_kind_of_logits_is_named_if_only_it_fails() -> None:
    kinds = (k for k in LOGITS_KINDS if k != "ties")
    told = f"Domain(logits_kind={tuple(kinds)!r})"
    ties = Case(PLAIN.batch, options=Options.of(logits_kind="ties"))
    assert left_out_by(ties, Domain(), [ties]) == told
    assert left_out_by(ties, Domain(), [ties, PLAIN]) == ""


@pytest.mark.parametrize("failed", [("low_biases",), ("low_biases", "negative")])
def test_kinds_of_choices_below_0_are_named_together_if_each_fails(failed: tuple[LogitsKind, ...]) -> None:
    cases = [Case(PLAIN.batch, options=Options.of(logits_kind=kind)) for kind in failed]
    kinds = tuple(kind for kind in LOGITS_KINDS if kind not in failed)
    assert left_out_by(cases[0], Domain(), cases) == f"Domain(logits_kind={kinds!r})"


def test_rows_wider_than_the_window_are_named_where_windows_are_listed() -> None:
    wide = _having(window=2)
    assert left_out_by(wide, Domain()) == ""
    assert left_out_by(wide, Domain(), seen=("windows",)) == "Domain(min_window_columns=(1,))"
    told = "Domain(min_window_columns=(1,)) or Domain(window=(1, 2, 4, 16, 128))"
    assert left_out_by(PLAIN, Domain(), [PLAIN], ("windows",)) == told
    assert left_out_by(_having(window=5), Domain(), seen=("windows",)) == ""


def test_block_sizes_are_named_if_no_other_failed_and_no_other_promise_helps() -> None:
    small = _blocks_of(1)
    told = "Domain(block_sizes=(16, 32, 64, 128, 256))"
    assert left_out_by(small, Domain(), [small]) == told
    assert left_out_by(small, Domain(), [small, _blocks_of(16)]) == "Domain(block_sizes=(64,))"
    assert left_out_by(small, Domain(), [small, *map(_blocks_of, (16, 64, 128))]) == ""
    assert left_out_by(small, Domain(), [small], seen=()) == ""
    assert left_out_by(small.laid_out(num_spare_tokens=1), Domain()) == "Domain(num_spare_tokens=(0,))"
    of_two = Domain(block_sizes=(1, 32))
    assert left_out_by(small, of_two, [small]) == "Domain(block_sizes=(32,))"


def test_of_an_own_promise_the_values_are_named_that_are_left() -> None:
    ties = Case(PLAIN.batch, options=Options.of(logits_kind="ties"))
    own = Domain(logits_kind=("ties", "random"))
    assert left_out_by(ties, own, [ties]) == "Domain(logits_kind=('random',))"
    assert left_out_by(ties, Domain(logits_kind=("ties",)), [ties]) == ""


def test_promises_of_options_come_first_and_whole_prefixes_only_alone() -> None:
    dims = "Domain(head_dims=((64, 64), (128, 128)))"
    odd = _having(head_dim=8, value_dim=16)
    assert left_out_by(odd.laid_out(table_row_gap=1), Domain()) == f"{dims} or Domain(strided=False)"
    assert left_out_by(Case(BEGUN.batch, options=odd.options), Domain()) == dims

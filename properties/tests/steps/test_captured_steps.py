"""Facts about steps as long as captured graphs."""

import pytest

from cumae.properties.steps.captured_steps import CAPTURED
from cumae.properties.steps.kinds import KINDS, OF_TOKENS
from cumae.properties.tests.given.kinds import smallest


def test_each_stands_among_the_kinds() -> None:
    assert CAPTURED.items() <= KINDS.items()
    assert {name for name in CAPTURED if "routed" in name} <= {*OF_TOKENS}


@pytest.mark.parametrize("name", CAPTURED)
def test_it_has_as_many_tokens_as_a_graph(name: str) -> None:
    case = smallest(name)
    assert case.num_tokens_padded == case.batch.num_tokens == CAPTURED[name][1][0]
    assert not name.startswith("captured") or len(case.batch.requests) == case.batch.num_tokens


def test_widths_are_those_of_models() -> None:
    heads = smallest("captured, 8 heads in fp8").options.heads
    assert (heads.num_heads, heads.head_dim, heads.value_dim, heads.head_format) == (8, 128, 128, "fp8")
    rows = smallest("captured, rows of bf16").options.rows
    assert rows.kv_lora_rank + rows.qk_rope_head_dim == 576
    case = smallest("captured, all select")
    assert min(request.context_len for request in case.batch.requests) >= case.options.selection.topk == 2_048


def test_routers_scale_as_their_models_do() -> None:
    routers = [smallest(name).options.router for name in CAPTURED if "routed" in name]
    scales = [(router.num_experts, router.scaling_thousandths) for router in routers]
    assert scales == [(256, 2_500), (384, 2_827), (512, 1_000), (512, 1_000), (128, 1_000), (256, 2_500)]
    assert {router.logits_dtype for router in routers[-2:]} == {"bf16"}

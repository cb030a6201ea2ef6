"""Adapters: where a function is, and what it promises."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import cumae
from cumae.properties.engines.adapter import Engine
from cumae.properties.engines.known import FINDINGS
from cumae.properties.engines.released import ENGINES, engine_of
from cumae.properties.operations.binding import binding_of
from cumae.properties.operations.targets import load_function
from cumae.properties.results.failure_file import load_failure
from cumae.properties.tests.helpers.released_tree import FILE

Tensor = torch.Tensor


def test_an_adapter_says_where_a_function_is_and_what_it_promises(tree: Path, wheel: Path) -> None:
    engine = Engine("eng", "vllm", ("1.0",))

    # No name of the file is `older`, as in a release that no longer imports it.
    @engine.adapts(FILE, "Positions", operation="position_ids", domain=cumae.Domain(captured=False), older=1)
    def positions_of_a_step(kind: Any) -> Callable[..., None]:
        kernel = kind()

        def launch(
            num_reqs: int, query_start_loc: Tensor, num_computed_tokens: Tensor, positions: Tensor
        ) -> None:
            positions.zero_()
            kernel(num_reqs, query_start_loc, num_computed_tokens, positions)

        return launch

    adapter = engine.adapters["positions_of_a_step"]
    for root in (tree, wheel):
        function = adapter.function(root)
        assert function.__qualname__ == "positions_of_a_step"
        domain = cumae.Domain(captured=False, min_requests=1)
        how: dict[str, Any] = {"domain": domain, "examples": 5, "checks": ["agrees"]}
        verdict = cumae.check(function, "position_ids", dialect=adapter.dialect, save_to=None, **how)
        assert verdict.ok, verdict.failure
    with pytest.raises(ValueError, match="adapter = 'positions_of_a_step', must be new: eng has it"):
        engine.adapts(FILE, "Positions", operation="position_ids", domain=cumae.Domain())(positions_of_a_step)


def test_every_shipped_adapter_names_its_place_and_can_be_bound() -> None:
    from importlib import import_module

    for name in ENGINES:
        engine: Engine = import_module(f"cumae.properties.engines.{name}").ENGINE
        assert engine.adapters and engine.versions
        for adapter in engine.adapters.values():
            assert adapter.file.endswith(".py") and adapter.names
            if isinstance(adapter.operation, str):
                assert adapter.operation in cumae.OPERATIONS


def test_the_case_of_a_known_disagreement_lies_in_the_domain_and_not_in_what_agrees() -> None:
    known = [one for name in ENGINES for one in engine_of(name).adapters.values() if one.known is not None]
    assert {one.known.case for one in known if one.known} == {file.stem for file in FINDINGS.glob("*.json")}
    text = (Path(__file__).resolve().parents[3] / "FINDINGS.md").read_text(encoding="utf-8")
    for adapter in known:
        assert adapter.known is not None
        saved = load_failure(FINDINGS / f"{adapter.known.case}.json")
        beside = adapter.domain.having(**adapter.known.without)
        assert adapter.domain.why_not(saved.case) is None
        assert beside.why_not(saved.case) is not None or saved.finding.check in beside.all_but
        assert f"`{adapter.known.case}`" in text


def test_every_adapter_of_draft_steps_is_given_drafts() -> None:
    """An adapter whose inputs do not say that they depend on the drafts would only meet steps without any."""
    for name in ENGINES:
        for adapter in engine_of(name).adapters.values():
            if adapter.operation != "draft_steps":
                continue
            function = adapter.adapt(*[lambda *given, **more: None] * len(adapter.names))
            binding = binding_of(function, adapter.operation, adapter.dialect, adapter.domain)
            assert "max_drafts" in binding.features, adapter.name


def test_a_known_disagreement_that_only_the_interpreter_shows_is_not_told_as_mended_on_a_gpu() -> None:
    adapter = engine_of("vllm").adapters["mtp_moved_ids"]
    assert adapter.known is not None
    # The binding is not used: nothing runs.
    binding = binding_of(load_function("cumae.gpu_impl:write_position_ids"), "position_ids")
    told = adapter.known.shown(binding, "cuda")
    assert told == "not shown: holds_in_any_order runs in the interpreter only"

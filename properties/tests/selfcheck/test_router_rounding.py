"""The report on bf16 routes as the oracle does, and counts what rounding changes and nothing else."""

import json
from pathlib import Path

import numpy as np
import pytest

from cumae.oracle import grouped_topk
from cumae.oracle.router_logits import as_stored
from cumae.properties.selfcheck import router_rounding
from cumae.properties.selfcheck.figures import router_lines
from cumae.properties.selfcheck.router_rounding import DISTRIBUTIONS, Shape, compare, route, to_bf16, to_fp32

RESULTS = Path(__file__).parents[3] / "ci/results/cpu-router-bf16.json"


def test_rounding_is_that_of_the_oracle() -> None:
    values = to_fp32(np.random.default_rng(3).standard_normal(2000) * 10)
    assert to_bf16(values).tolist() == [as_stored(value, "bf16") for value in values.tolist()]


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_rows_are_routed_as_the_oracle_routes_them(name: str) -> None:
    shape, draw, biases = DISTRIBUTIONS[name]
    logits, bias = to_fp32(draw(np.random.default_rng(5), 40, 256)), to_fp32(biases)
    found = route(logits, bias, shape)
    ideal = grouped_topk(logits.tolist(), bias.tolist(), *shape[1:], scaling_factor=router_rounding.SCALE)
    for row in range(40):
        ids = [i for i in ideal.expert_ids[row * shape.top_k : (row + 1) * shape.top_k] if isinstance(i, int)]
        part = slice(row * shape.top_k, (row + 1) * shape.top_k)
        assert np.flatnonzero(found.selected[row]).tolist() == sorted(ids)
        weights = found.weights[row][ids]
        assert weights == pytest.approx(ideal.expert_weights[part], rel=1e-6)


def test_what_is_stored_alike_selects_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(router_rounding, "to_bf16", lambda values: values)
    for found in compare("logits of width 1, biases within 0.1", 200):
        assert found["rows_with_other_experts"] == found["experts_changed"] == 0
        assert found["weight_change_where_experts_stay"]["max"] == 0


def test_an_exchange_is_counted_with_its_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    biases = np.array([7.0, 7.01, 0.0, 0.0])
    one = (Shape(4, 1, 1, 1), lambda random, rows, experts: np.zeros((rows, experts)), biases)
    monkeypatch.setattr(router_rounding, "DISTRIBUTIONS", {"one": one})
    logits, bias, both = compare("one", 30)
    assert logits["rows_with_other_experts"] == 0
    for found in (bias, both):
        assert found["rows_with_other_experts"] == found["experts_changed"] == found["rows"] == 30
        assert found["gap_of_experts_exchanged"]["max"] == found["margin_of_rows_changed"]["max"] == 0.01
        assert found["weight_of_experts_lost"]["median"] == 1


def test_the_kept_figures_become_a_table() -> None:
    report = json.loads(RESULTS.read_text())
    assert all(found["rows"] >= 100_000 for found in report["results"])
    assert len(report["results"]) == 3 * len(DISTRIBUTIONS)
    table = router_lines(report)
    assert len(table) == 6 + len(DISTRIBUTIONS)
    assert {line.count("|") for line in table[4:]} == {7}

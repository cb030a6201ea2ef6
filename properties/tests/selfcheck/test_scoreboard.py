"""The figures of the README's first screen, from small results written by hand."""

from typing import Any

from cumae.properties.selfcheck.scoreboard import engines_table, three_figures


def bug(report: str, check: str | None, outcome: str = "caught") -> dict[str, Any]:
    return {"report": report, "check": check, "outcome": outcome}


RESULTS: dict[str, Any] = {
    "cpu-bugs": {
        "bugs": [bug("a#1", "agrees"), bug("a#2", None, "needs a GPU"), bug("a#3", None, "not found")],
        "out_of_reach": {"b#1": "no operation computes it"},
    },
    "gpu-bugs": {"bugs": [bug("a#2", "replays_in_graph")]},
    "cpu-false-alarms": {"cases": 1000, "accusations": 0},
    "gpu-false-alarms": {"cases": 500, "accusations": 1},
    "cpu-mutants": {
        "kernels": [
            {"judged": 7, "killed": 4, "equivalent": 1, "equal on the small domain": 1, "survived": 1},
            {"judged": 3, "killed": 3},
        ]
    },
}


def test_the_three_figures_are_sums_over_the_runs() -> None:
    _, _, bugs, false_positives, mutants = three_figures(RESULTS).splitlines()
    assert "| 2 of 3, 1 of them on a GPU only; 1 kinds more" in bugs
    assert "| 1 times in 1,500 cases |" in false_positives
    assert "| 7 found, 1 missed, 2 without effect on a small domain, of 10 |" in mutants


def test_a_new_disagreement_has_its_own_column() -> None:
    statuses = (("fla", "agrees"), ("vllm", "agrees"), ("vllm", "known"), ("vllm", "disagrees"))
    functions = [{"engine": engine, "status": status} for engine, status in statuses]
    releases = {"fla": "fla", "vllm": "vllm-0.33.0-cp38-abi3-any.whl"}
    _, _, *rows = engines_table({"releases": releases, "functions": functions}).splitlines()
    assert rows == ["| `vllm` 0.33.0 | 3 | 1 | 1 | 1 |", "| `fla` from its repository | 1 | 1 | 0 | 0 |"]

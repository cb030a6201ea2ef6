"""The record of faults in released kernels, joined from several runs."""

from typing import Any

from cumae.properties.selfcheck.fault_figures import released_mutants_line
from cumae.properties.selfcheck.mutant_record import joined, reasons_in

_MACHINE = {"device": "CPU", "python": "3", "torch": "2", "triton": "3", "numpy": "2"}


def _fault(kernel: str, diff: str, status: str) -> dict[str, Any]:
    where = {"engine": "vllm", "kernel": kernel, "line": 3, "operator": "cast dropped"}
    return {**where, "diff": diff, "status": status, "function": "one", "cases": 2, "report": "/tmp/one"}


def _run(*faults: dict[str, Any]) -> dict[str, Any]:
    return {
        **_MACHINE,
        "command": "vllm=/some/where/vllm --survivors-of /there/old.json",
        "mutants": [*faults],
    }


FIRST = _run(_fault("_a", "one", "NEW"), _fault("_a", "two", "agrees"), _fault("_b", "three", "agrees"))
AGAIN = _run(_fault("_a", "one", "NEW"), _fault("_a", "two", "mended"), _fault("_a", "four", "known"))


def test_of_a_fault_that_is_tried_again_the_last_run_counts() -> None:
    record = joined([FIRST, AGAIN], {})
    counts = [(one["kernel"], one["last_run"], one["found"], one["tried"]) for one in record["kernels"]]
    assert counts == [("_a", 1, 2, 3), ("_b", 0, 0, 1)]
    assert [one["diff"] for one in record["survivors"]] == ["four", "three"]


def test_reasons_are_kept_by_the_fault_and_not_given_to_another() -> None:
    record = joined([FIRST], {("vllm", "_a", "two"): "the grid is one program", ("vllm", "_b", "no"): "old"})
    assert reasons_in(record) == {
        ("vllm", "_a", "two"): "the grid is one program",
        ("vllm", "_b", "three"): "",
    }


def test_a_record_names_no_folder_of_the_machine() -> None:
    record = joined([FIRST], {})
    assert record["runs"][0]["command"] == "vllm=vllm --survivors-of old.json"
    assert "/" not in str(record)


def test_the_figures_count_faults_and_kernels() -> None:
    line = released_mutants_line(joined([FIRST, AGAIN], {}))
    assert "2 of 4 found" in line and "2 Triton kernels" in line and "; in 0 kernels" in line

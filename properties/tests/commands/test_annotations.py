"""Annotations of GitHub and SARIF: what a CI service shows of findings."""

import json
from pathlib import Path

import pytest

from cumae.properties.commands.annotations import annotation, in_repository, of_flaws, of_verdicts, sarif
from cumae.properties.lint.flaw import DEFINED, RULES, WIDE, Flaw
from cumae.properties.results.verdict import Failure, Finding, Verdict
from cumae.properties.tests.given.cases_by_hand import SMALL
from cumae.properties.tests.helpers.command_line import AS_BROKEN, BROKEN, cumae, cumae_process
from cumae.properties.tests.helpers.json_schema import Schema, faults

TEXT: Schema = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}}
LOCATION: Schema = {
    "type": "object",
    "required": ["physicalLocation"],
    "properties": {
        "physicalLocation": {
            "type": "object",
            "required": ["artifactLocation", "region"],
            "properties": {
                "artifactLocation": {
                    "type": "object",
                    "required": ["uri"],
                    "properties": {"uri": {"type": "string", "pattern": r"^[^\s\\]+$"}},
                    "additionalProperties": False,
                },
                "region": {
                    "type": "object",
                    "required": ["startLine"],
                    "properties": {"startLine": {"type": "integer", "minimum": 1}},
                    "additionalProperties": False,
                },
            },
            "additionalProperties": False,
        }
    },
    "additionalProperties": False,
}
RESULT: Schema = {
    "type": "object",
    "required": ["ruleId", "message", "locations"],  # what code scanning needs beyond SARIF
    "properties": {
        "ruleId": {"type": "string"},
        "ruleIndex": {"type": "integer", "minimum": 0},
        "level": {"enum": ["none", "note", "warning", "error"]},
        "message": TEXT,
        "locations": {"type": "array", "minItems": 1, "items": LOCATION},
    },
    "additionalProperties": False,
}
RULE: Schema = {
    "type": "object",
    "required": ["id"],
    "properties": {"id": {"type": "string"}, "name": {"type": "string"}, "shortDescription": TEXT},
    "additionalProperties": False,
}
DRIVER: Schema = {
    "type": "object",
    "required": ["name", "rules"],
    "properties": {
        "name": {"type": "string"},
        "version": {"type": "string"},
        "rules": {"type": "array", "uniqueItems": True, "items": RULE},
    },
    "additionalProperties": False,
}
RUN: Schema = {
    "type": "object",
    "required": ["tool", "results"],
    "properties": {
        "tool": {"type": "object", "required": ["driver"], "properties": {"driver": DRIVER}},
        "results": {"type": "array", "items": RESULT},
    },
    "additionalProperties": False,
}
SARIF: Schema = {
    "type": "object",
    "required": ["version", "runs"],
    "properties": {
        "$schema": {"type": "string", "pattern": r"^https://.*sarif.*2\.1\.0.*\.json$"},
        "version": {"const": "2.1.0"},
        "runs": {"type": "array", "minItems": 1, "items": RUN},
    },
    "additionalProperties": False,
}
"""The part of the SARIF 2.1.0 schema that `cumae lint` writes, closed: another property is a fault."""
FLAWS = [Flaw("a b/k.py", 5, DEFINED, "k", "100 % wrong"), Flaw("/usr/k.py", 7, WIDE, "k", "it\nwraps")]
KERNEL = """
import triton, triton.language as tl
@triton.jit
def kern(out, q, n, S: tl.constexpr):
    i = tl.arange(0, S)
    x = tl.load(q + i, mask=i < n)
    tl.store(out + tl.sum(x), 1)
def launch(query_lens, position_ids):
    kern[(1,)](position_ids, query_lens, query_lens.numel(), 64)
"""


def test_sarif_has_the_structure_that_code_scanning_reads() -> None:
    log = sarif(FLAWS, RULES)
    assert faults(log, SARIF, SARIF) == []
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert len(rules) == len(RULES)
    for result, flaw in zip(run["results"], FLAWS, strict=True):
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert rules[result["ruleIndex"]]["name"] == flaw.rule
    uris = [
        result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for result in run["results"]
    ]
    assert uris == ["a%20b/k.py", "file:///usr/k.py"]
    assert faults(sarif([], RULES), SARIF, SARIF) == []


@pytest.mark.parametrize("name", ["version", "runs"])
def test_a_log_without_a_field_is_noticed(name: str) -> None:
    log = sarif(FLAWS, RULES)
    del log[name]
    assert faults(log, SARIF, SARIF) != []


def test_lint_writes_sarif_alone_and_annotations_beside_its_text(tmp_path: Path) -> None:
    (tmp_path / "k.py").write_text(KERNEL)
    arguments = ("lint", "k.py:launch", "--op", "position_ids")
    done = cumae_process(*arguments, "--output-format=sarif", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    log = json.loads(done.stdout)
    assert faults(log, SARIF, SARIF) == []
    (result,) = log["runs"][0]["results"]
    where = result["locations"][0]["physicalLocation"]
    assert where == {"artifactLocation": {"uri": "k.py"}, "region": {"startLine": 6}}
    assert "1 finding in 1 kernel" in done.stderr
    done = cumae_process(*arguments, "--output-format=github", cwd=tmp_path)
    assert done.stdout.splitlines()[-1].startswith(
        "::error file=k.py,line=6,title=cumae lint%3A defined loads::a"
    )


def test_sarif_and_json_do_not_share_standard_output(tmp_path: Path) -> None:
    refused = cumae("lint", "--output-format=sarif", "--json", "-", cwd=tmp_path)
    assert refused.returncode == 2


def test_an_annotation_is_escaped() -> None:
    told = annotation("a: b, c", "one\r\ntwo 5 %: x", None)
    assert told == "::error title=a%3A b%2C c::one%0D%0Atwo 5 %25: x"
    assert of_flaws(FLAWS[:1]) == [
        "::error file=a b/k.py,line=5,title=cumae lint%3A defined loads::100 %25 wrong (in k)"
    ]


def test_files_are_named_as_the_repository_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    assert in_repository("k.py") == "k.py"
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    assert in_repository("k.py") == "sub/k.py"
    assert in_repository("/elsewhere/k.py") == "/elsewhere/k.py"


def test_a_verdict_is_annotated_at_the_function() -> None:
    finding = Finding("agrees", "`ke[3]` differs from the oracle", "a rule", "ke", 3, "9", "8")
    wrong = Verdict("k.py:f", "position_ids", "cumae", ("agrees",), failure=Failure(finding, SMALL, 1))
    wrong.source = ("k.py", 4)
    right = Verdict("k.py:g", "position_ids", "cumae", ("agrees",), comparisons=1)
    nothing = Verdict("k.py:h", "position_ids", "cumae", ("agrees",))
    first, second = of_verdicts([wrong, right, nothing])
    told = "position_ids, agrees: actual 8, expected 9: `ke[3]` differs from the oracle%0Arule: a rule"
    assert first == f"::error file=k.py,line=4,title=cumae%3A k.py%3Af disagrees::{told}"
    assert (
        second == "::error title=cumae%3A k.py%3Ah nothing compared::nothing was compared, which is a failure"
    )


def test_fuzz_annotates_what_disagrees(tmp_path: Path) -> None:
    done = cumae("fuzz", BROKEN, *AS_BROKEN, "--cases", "5", "--output-format=github", cwd=tmp_path)
    assert done.returncode == 1
    last = done.stdout.splitlines()[-1]
    assert last.startswith("::error file=") and "fixtures/bugs/causal_windows.py,line=" in last
    assert "reproduce: cumae replay .cumae/failures/" in last
    silent = cumae("fuzz", BROKEN, *AS_BROKEN, "--cases", "5", cwd=tmp_path)
    assert "::error" not in silent.stdout

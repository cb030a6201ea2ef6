"""The workflows: YAML of the right shape, scripts that exist, and steps of the action that run by hand."""

import os
import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from cumae.properties.tests.pytest_plugin.test_plugin import KERNEL_TEST

ROOT = Path(__file__).resolve().parents[3]
ACTION = ROOT / ".github/actions/cumae/action.yml"
EXAMPLE = ROOT / "properties/pytest_plugin/cumae-workflow.yml"
PAGE = ROOT / "properties/pytest_plugin/in-your-ci.md"
OURS = sorted((ROOT / ".github/workflows").glob("*.yml"))
CPU_SCRIPTS = {"lint", "workflows", "setup", "test", "versions", "targets", "wheel", "docs"}
pytestmark = pytest.mark.skipif(find_spec("yaml") is None, reason="no PyYAML: `ci/setup dev` installs it")
Steps = list[dict[str, Any]]


def loaded(file: Path) -> dict[str, Any]:
    """Return the content of a file; YAML reads the key ``on`` as true."""
    import yaml

    content: dict[Any, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return {"on" if key is True else key: value for key, value in content.items()}


def steps_of(file: Path) -> Steps:
    return [step for job in loaded(file)["jobs"].values() for step in job["steps"]]


def scripts_of(file: Path) -> set[str]:
    """Return the scripts of ci/ that a workflow calls."""
    return {name for step in steps_of(file) for name in re.findall(r"\bci/(\w+)", step.get("run", ""))}


@pytest.mark.parametrize("file", [*OURS, EXAMPLE], ids=lambda file: file.stem)
def test_each_job_has_a_runner_a_time_limit_and_few_rights(file: Path) -> None:
    workflow = loaded(file)
    assert workflow["permissions"] == {"contents": "read"}
    assert workflow["on"]
    for name, job in workflow["jobs"].items():
        assert job["runs-on"] and job["timeout-minutes"] > 0, name
        for step in job["steps"]:
            assert ("run" in step) != ("uses" in step), step
            assert re.search(r"@v\d+$|^\./", step.get("uses", "./")), step


@pytest.mark.parametrize("file", OURS, ids=lambda file: file.stem)
def test_each_step_runs_a_script_that_runs_by_hand(file: Path) -> None:
    for name in scripts_of(file):
        assert os.access(ROOT / "ci" / name, os.X_OK), name
    for step in steps_of(file):
        run = step.get("run", "ci/")
        assert "ci/" in run or run.startswith((".venv/bin/cumae ", "mkdir ")), run


def test_each_push_runs_every_script_for_a_cpu() -> None:
    assert scripts_of(ROOT / ".github/workflows/cpu.yml") == CPU_SCRIPTS
    assert scripts_of(ROOT / ".github/workflows/gpu.yml") == {"test", "gpu"}
    nightly = (ROOT / ".github/workflows/nightly.yml").read_text(encoding="utf-8")
    assert "ci/engines --newest" in nightly and "cumae merge" in nightly


def test_no_pull_request_runs_on_our_own_machines() -> None:
    for file in [*OURS, EXAMPLE]:
        workflow = loaded(file)
        for job in workflow["jobs"].values():
            own = "self-hosted" in job["runs-on"]
            assert not own or "pull_request" not in workflow["on"] or "!= 'pull_request'" in job["if"]


@pytest.mark.parametrize("file", [*OURS, EXAMPLE, ACTION], ids=lambda file: file.stem)
def test_artifacts_and_caches_are_no_hidden_folders(file: Path) -> None:
    steps = loaded(file)["runs"]["steps"] if file == ACTION else steps_of(file)
    kept = [step["with"]["path"] for step in steps if re.search("artifact@|cache/", step.get("uses", ""))]
    assert kept
    assert not any(part.startswith(".") for path in kept for part in Path(path).parts)


def test_the_example_gives_the_action_inputs_that_it_has() -> None:
    inputs = loaded(ACTION)["inputs"]
    used = [step["with"] for step in steps_of(EXAMPLE) if step.get("uses") == "./.github/actions/cumae"]
    assert len(used) == 2
    assert all(set(given) <= set(inputs) for given in used)
    text = ACTION.read_text(encoding="utf-8")
    assert set(re.findall(r"inputs\.(\w+)", text)) == set(inputs)


def test_no_expression_stands_in_a_script() -> None:
    for step in [
        *loaded(ACTION)["runs"]["steps"],
        *steps_of(EXAMPLE),
        *(s for f in OURS for s in steps_of(f)),
    ]:
        assert "${{" not in step.get("run", ""), "the text of an expression could be run as a command"


def scripted(name: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a step of the action as GitHub does, in a folder."""
    (step,) = (step for step in loaded(ACTION)["runs"]["steps"] if step["name"] == name)
    assert set(variables) == set(step["env"])
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment |= {**variables, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


def test_the_steps_of_the_action_run_by_hand(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text(re.findall(r"```ini\n(.*?)```", PAGE.read_text(), re.DOTALL)[0])
    wrong = KERNEL_TEST.replace("arange(context_len, context_len + query_len)", "arange(query_len)")
    (tmp_path / "test_it.py").write_text(wrong.replace("examples=5", "checks=('agrees',)"))
    done = scripted("Test", tmp_path, TESTS="test_it.py", OPTIONS="--cumae-device=cpu", PROFILE="quick")
    assert done.returncode == 1 and "profile quick (40 cases an item) (option)" in done.stdout, done.stderr
    assert len([*(tmp_path / "cumae-failures").glob("*.json")]) == 1
    assert (tmp_path / "cumae-failures/pytest.xml").exists()
    lines = ["import triton, triton.language as tl", "@triton.jit", "def kern(out, n, S: tl.constexpr):"]
    lines += ["    i = tl.arange(0, S)", "    tl.store(out + i, i, mask=i < n)"]
    lines += ["def launch(num_tokens, position_ids):", "    kern[(1,)](position_ids, num_tokens, 64)"]
    (tmp_path / "k.py").write_text("\n".join(lines) + "\n")
    linted = scripted("Lint", tmp_path, LINT="k.py:launch=position_ids=vllm k.py:none=position_ids")
    assert linted.returncode == 2
    assert sorted(file.name for file in (tmp_path / "cumae-sarif").iterdir()) == [
        "k-py-launch.sarif",
        "k-py-none.sarif",
    ]


def test_the_page_names_files_and_options_that_exist() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for name in re.findall(r"\]\(([^)#]+)\)", text):
        assert (PAGE.parent / name).exists(), name
    known = "".join(file.read_text() for file in (ROOT / "properties/commands").rglob("*.py"))
    plugin = (PAGE.parent / "settings.py").read_text()
    for option in re.findall(r"--[a-z][a-z-]+", text):
        own = option.removeprefix("--cumae-")
        assert f'"{own}": ' in plugin if own != option else f'"{option}"' in known, option


@pytest.mark.parametrize("name", ["targets", "wheel", "docs", "workflows"])
def test_a_script_is_short_and_can_be_parsed(name: str) -> None:
    script = ROOT / "ci" / name
    assert len(script.read_text(encoding="utf-8").splitlines()) <= 40
    assert subprocess.run(["bash", "-n", str(script)], check=False).returncode == 0
    assert shlex.split(script.read_text(encoding="utf-8").splitlines()[0]) == ["#!/usr/bin/env", "bash"]

"""Any callable with argument names is tested, under a name that finds it again; others get one clear line."""

import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from cumae.properties.operations.targets import load_function
from cumae.properties.pytest_plugin.conforms_to import conforms_to
from cumae.properties.results.explain import explain
from cumae.properties.running.device import prepare
from cumae.properties.search.direct import check
from cumae.properties.tests.functions import callables
from cumae.properties.tests.helpers.command_line import cumae

DEVICE = prepare("auto")
HOME = "cumae.properties.tests.functions.callables"
OPS = torch.ops.cumae_callables
WORKS: dict[str, Any] = {
    f"{HOME}:launcher": callables.launcher,
    f"{HOME}:method": callables.method,
    f"{HOME}:launcher.launch": callables.launcher.launch,
    f"{HOME}:Launcher.made": callables.Launcher.made,
    f"{HOME}:module": callables.module,
    f"{HOME}:Module": callables.Module,
    f"{HOME}:bound": callables.bound,
    f"{HOME}:small": callables.small,
    f"{HOME}:operator": callables.operator,
    "torch:ops.cumae_callables.positions": OPS.positions,
    "torch:ops.cumae_callables.returned": OPS.returned.default,
    "torch:ops.cumae_callables.written": OPS.written,
}


@pytest.mark.parametrize("name", WORKS)
def test_a_callable_is_tested_under_a_name_that_finds_it_again(name: str) -> None:
    verdict = check(WORKS[name], "position_ids", checks=("agrees",), examples=2, save_to=None)
    assert verdict.ok, verdict
    assert verdict.target == name
    again = check(load_function(name), "position_ids", checks=("agrees",), examples=2, save_to=None)
    assert (again.ok, again.target) == (True, name)


@pytest.mark.parametrize("name", WORKS)
def test_it_is_taken_by_conforms_to(name: str) -> None:
    made = conforms_to("position_ids", checks=("agrees",))(WORKS[name])
    assert check(made, "position_ids", checks=("agrees",), examples=2, save_to=None).ok


@pytest.mark.parametrize(
    ("target", "line"),
    [
        (callables.kernel, "target = 'kernel', must be the function that launches this kernel: only"),
        (callables.tuned, "target = 'kernel', must be the function that launches this kernel: only"),
        (callables.runs_later, "target = 'runs_later', must run when it is called: it is async, write a"),
        (callables.Async(), "target = 'Async', must run when it is called: it is async, write a function"),
        (callables.yields, "target = 'yields', must run when it is called: it is a generator, write a"),
        (callables.any_arguments, r"parameter = '\*tensors.*' of any_arguments, must be filled by name"),
        (callables.any_names, r"parameter = '\*\*tensors.*' of any_names, must be filled by name: write"),
        (callables.kernel[(1,)], r"parameter = '\*args' of KernelInterface.*, must be filled by name"),
        (max, "target = 'max', must have arguments by name: write a function that names its arguments"),
        (torch.add, "target = '.*add', must have arguments by name: write a function that names its"),
        (math.gcd, r"parameter = '\*integers' of gcd, must be filled by name: write"),
        (callables.HasNoCall, "target = 'HasNoCall', must have a method __call__, which runs a step"),
        (OPS.two, "target = 'torch.ops.cumae_callables.two', must be one of its overloads: .int, .float"),
        ("a.b:c", "target = 'a.b:c', must be a function or a class"),
        (7, "target = 7, must be a function or a class"),
    ],
)
def test_what_cannot_be_called_by_name_is_one_line(target: Any, line: str) -> None:
    for run in (check, lambda *given: conforms_to(given[1])(given[0])):
        with pytest.raises(ValueError, match=f"^{line}") as refused:
            run(target, "position_ids")
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("target", "name"), [(callables.local(), "local.<locals>.inside")])
def test_a_failure_of_what_no_module_names_says_what_to_add(target: Any, name: str, tmp_path: Path) -> None:
    verdict = check(target, "position_ids", checks=("agrees",), examples=2, save_to=tmp_path)
    assert verdict.target == f"{HOME}:{name}"
    assert verdict.failure is not None and verdict.failure.file is not None
    file = str(verdict.failure.file)
    assert f"cumae replay {file} --target MODULE:NAME\n" in explain(verdict)
    refused = cumae("replay", file, cwd=tmp_path)
    assert refused.returncode == 2
    assert "must be named in its module and given as --target" in refused.stderr
    good = cumae("replay", file, "--target", f"{HOME}:bound", cwd=tmp_path)
    told = "synchronises" if DEVICE == "cuda" else "FIXED"  # it is code of torch
    assert told in good.stdout, good.stdout


def test_a_function_of_a_script_is_replayed_from_the_scripts_file(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "import cumae\n"
        "def positions(query_lens, position_ids):\n    position_ids.fill_(7)\n"
        "if __name__ == '__main__':\n"
        "    print(cumae.explain(cumae.check(positions, 'position_ids', checks=('agrees',), examples=2)))\n"
    )
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout.startswith("script.py:positions disagrees with position_ids"), done.stderr
    (file,) = (tmp_path / ".cumae" / "failures").glob("*.json")
    assert cumae("replay", str(file), cwd=tmp_path).returncode == 1

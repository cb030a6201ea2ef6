"""Lints each small kernel and writes what was found as JSON: a process of its own, which compiles."""

import inspect
import json
import sys
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Any

import torch

from cumae.fixtures.bugs import BUGS
from cumae.oracle import Case
from cumae.properties.cases.seeded import seeded_cases
from cumae.properties.lint.compiling import TARGETS
from cumae.properties.lint.linter import lint
from cumae.properties.operations.binding import binding_of
from cumae.properties.operations.targets import load_function
from cumae.properties.tests.functions import lint_kernels

USES = ("sum", "address", "wider store", "mask", "branch", "other axis", "next round")
HARMLESS = ("same mask", "chosen away", "same mask, turned")
COMPILED = ("has_fp8",)


def looked_at(name: str, function: Callable[..., Any], operation: str, dialect: str = "cumae") -> Any:
    """Return the flaws of a function and what its targets lack; only a few are compiled to machine code."""
    targets = tuple(TARGETS) if name in COMPILED else ()
    binding = binding_of(function, operation, dialect)
    cases: list[Case] = list(islice(seeded_cases(0, binding.domain, binding.features), 8))
    try:
        found = lint([(name, binding, cases)], targets=targets)
    except ValueError as error:
        return {"refused": str(error)}
    flaws = [[flaw.rule, flaw.source, flaw.text] for flaw in sorted(found.flaws)]
    (kernel,) = found.kernels.values()
    return {"flaws": flaws, "missing": kernel.missing, "compiled": dict(kernel.compiled), "keys": kernel.keys}


def undefined(use: str) -> Callable[..., Any]:
    """Return a launcher of the kernel that uses an undefined load so."""

    def launch(token_to_request: torch.Tensor, position_ids: torch.Tensor) -> None:
        lint_kernels.undefined(use, token_to_request, position_ids)

    return launch


torch.set_num_threads(1)
found = {}
for name, function in inspect.getmembers(lint_kernels, inspect.isfunction):
    if function.__module__ == lint_kernels.__name__ and name != "undefined":
        found[name] = looked_at(name, function, "position_ids")
for use in (*USES, *HARMLESS):
    found[use] = looked_at(use, undefined(use), "position_ids")
for bug in BUGS:
    if bug.report in ("FastDeploy#7367", "vllm#57030", "sglang#14224", "vllm#50427", "flashinfer#3136"):
        broken = load_function(bug.target)
        found[bug.report] = looked_at(bug.report, broken, bug.operation, bug.dialect)
        repaired = partial(broken, wrong=False)
        found[f"{bug.report}, repaired"] = looked_at(bug.report, repaired, bug.operation, bug.dialect)
sys.stdout.write(json.dumps(found))

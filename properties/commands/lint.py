"""``cumae lint``: static analysis of compiled kernels; needs no GPU."""

import json
import os
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Column, Table

from cumae.oracle.model.rules import require
from cumae.properties.cases.seeded import seeded_cases
from cumae.properties.commands.annotations import in_repository, of_flaws, sarif
from cumae.properties.commands.json_file import STDOUT, alone, write_json
from cumae.properties.operations import shipped_kernels
from cumae.properties.operations.binding import binding_of
from cumae.properties.operations.targets import load_function
from cumae.properties.results.counting import counted
from cumae.properties.results.explain import printed_lines
from cumae.properties.results.writable import require_file, writing
from cumae.properties.running.device import current, imported_as
from cumae.properties.search.first_cases import fixture_cases
from cumae.properties.search.printed import keeping_prints, own_output

if TYPE_CHECKING:
    from cumae.properties.lint.flaw import Flaw
    from cumae.properties.lint.linter import Linted
    from cumae.properties.lint.resources import Record

CASES = 40


def lint(
    target: str | None,
    operation: str | None,
    dialect: str,
    output_format: str,
    record: Path | None,
    file: Path | None,
) -> int:
    """Compile and analyse the kernels that TARGET launches."""
    if record is not None:
        require_file("--record", record)
    if output_format == "sarif":
        require(file != STDOUT, "--output-format", output_format, "be left out with --json -")
        with alone():
            flaws = _findings(target, operation, dialect, record, file)
            write_json(STDOUT, sarif(flaws, _rules()))
    else:
        flaws = _findings(target, operation, dialect, record, file)
    for line in of_flaws(flaws) if output_format == "github" else ():
        click.echo(line)
    return 1 if flaws else 0


def _rules() -> dict[str, str]:
    """Return the rules in words by name. Imports torch."""
    from cumae.properties.lint.flaw import RULES

    return RULES


def _findings(
    target: str | None, operation: str | None, dialect: str, record: Path | None, file: Path | None
) -> list["Flaw"]:
    """Compile and analyse, print and write what was found, and return it."""
    _let_triton_compile()
    from cumae.properties.lint.resources import record_in

    kept = None if record is None else record_in(record)
    console = Console(file=own_output())
    found, said = _linted([(target, operation)] if target else _shipped(operation), dialect, kept, console)
    _print_kernels(found, console)
    if said:
        console.print(printed_lines(said), markup=False, highlight=False, soft_wrap=True)
    flaws = sorted(found.flaws)
    _print_flaws(flaws, len(found.kernels))
    if record is not None and kept is not None:
        _keep(kept, record, is_whole=target is None and operation is None)
    if file is not None:
        write_json(file, _figures(found, flaws))
    return flaws


def _let_triton_compile() -> None:
    """Set Triton's mode, and import it."""
    interpreted = imported_as() == "InterpretedFunction"
    require(not interpreted, "TRITON_INTERPRET", "1", "be unset before triton is imported: lint compiles")
    # A test file may set or default this variable when it is imported; neither affects Triton now.
    os.environ["TRITON_INTERPRET"] = "0"
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
    import torch
    import triton

    triton.knobs.runtime.interpret = False
    torch.set_num_threads(1)  # many small copies


def _shipped(operation: str | None) -> list[tuple[str, str]]:
    """Return the kernels and whole steps of an operation, or of all, each with its operation."""
    from cumae.properties.operations.whole_step import WHOLE_STEP

    whole = [(function, name) for function, name in WHOLE_STEP.items() if operation in (None, name)]
    return shipped_kernels(operation) + whole


def _linted(
    targets: Sequence[tuple[str, str | None]], dialect: str, kept: "Record | None", console: Console
) -> tuple["Linted", Sequence[str]]:
    """Return what a lint of targets found, and what they printed meanwhile."""
    from cumae.properties.lint.compiling import TARGETS
    from cumae.properties.lint.linter import lint as look

    with keeping_prints() as printed, console.status(f"compiling for {', '.join(TARGETS)}"):
        functions = []
        for target, operation in targets:
            binding = binding_of(load_function(target), operation, dialect)
            drawn = islice(seeded_cases(0, binding.domain, binding.features), CASES)
            functions.append((target, binding, [*fixture_cases(binding), *drawn]))
        return look(functions, current(), record=kept), printed.lines()


def _print_kernels(found: "Linted", console: Console) -> None:
    """Print a row for each kernel, and the calls that failed."""
    from cumae.properties.lint.compiling import TARGETS

    columns = ("launches", "variants", f"compiled for {len(TARGETS)} targets", "compiles, any size")
    table = Table(Column("kernel", no_wrap=True), *columns)
    for kernel in found.kernels.values():
        lacking = [f"{name} has no {', '.join(types)}" for name, types in kernel.missing.items()]
        counts = sorted({kernel.compiled[name] for name in TARGETS if name not in kernel.missing})
        compiled = "; ".join([" to ".join(map(str, counts)), *lacking])
        table.add_row(kernel.name, str(kernel.launches), str(kernel.variants), compiled, str(kernel.keys))
    console.print(table)
    for name, raised in found.raised.items():
        if raised:
            failed = f"{counted(len(raised), 'call')} failed where no kernel ran: {raised[0]}"
            console.print(f"{name}: {failed}", markup=False)


def _print_flaws(flaws: Sequence["Flaw"], num_kernels: int) -> None:
    rules = _rules()
    for flaw in flaws:
        where = f"{in_repository(flaw.file)}:{flaw.line}"
        click.echo(f"{where}: {flaw.rule}: {flaw.text} (in {flaw.kernel})\n    {flaw.source}")
    for rule in sorted({flaw.rule for flaw in flaws}):
        click.echo(f"the rule of {rule}: {rules[rule]}")
    click.echo(f"{counted(len(flaws), 'finding')} in {counted(num_kernels, 'kernel')}")


def _keep(kept: "Record", file: Path, is_whole: bool) -> None:
    """Print what has changed since a record was written, and write it anew, or this run's part of it."""
    for rise in kept.rises:
        click.echo(f"increase over {file.name}: {rise}")
    click.echo(f"{counted(kept.compiled, 'compile')} that {file.name} did not hold")
    with writing("--record", file):
        text = json.dumps(kept.content(is_whole), indent=1, ensure_ascii=False)
        file.write_text(text + "\n", encoding="utf-8")


def _figures(found: "Linted", flaws: Sequence["Flaw"]) -> dict[str, Any]:
    """Return what was found, as plain data."""
    kernels = [
        {
            "kernel": kernel.name,
            "launches": kernel.launches,
            "variants": kernel.variants,
            "compiled": dict(kernel.compiled),
            "missing": kernel.missing,
            "compiles_any_size": kernel.keys,
        }
        for kernel in found.kernels.values()
    ]
    fields = ("file", "line", "rule", "kernel", "text", "source")
    return {
        "kernels": kernels,
        "findings": [{name: getattr(flaw, name) for name in fields} for flaw in flaws],
    }

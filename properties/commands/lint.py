"""``cumae lint``: static analysis of compiled kernels; needs no GPU."""

import json
import os
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Column, Table

from cumae.oracle.model.rules import require
from cumae.properties.cases.seeded import seeded_cases
from cumae.properties.commands.annotations import in_repository, of_flaws, sarif
from cumae.properties.commands.json_file import STDOUT, alone, write_json
from cumae.properties.operations import OPERATIONS
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
    interpreted = imported_as() == "InterpretedFunction"
    require(not interpreted, "TRITON_INTERPRET", "1", "be unset before triton is imported: lint compiles")
    # A test file may set or default this variable when it is imported; neither affects Triton now.
    os.environ["TRITON_INTERPRET"] = "0"
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
    import torch
    import triton

    triton.knobs.runtime.interpret = False

    from cumae.properties.lint.compiling import TARGETS
    from cumae.properties.lint.flaw import RULES
    from cumae.properties.lint.linter import lint as look
    from cumae.properties.lint.resources import record_in
    from cumae.properties.operations.whole_step import WHOLE_STEP

    torch.set_num_threads(1)  # many small copies
    kept = None if record is None else record_in(record)
    names = [operation] if operation else list(OPERATIONS)
    shipped = [(kernel, name) for name in names for kernel in OPERATIONS[name].kernels]
    shipped += [(function, name) for function, name in WHOLE_STEP.items() if name in names]
    console = Console(file=own_output())
    with keeping_prints() as printed, console.status(f"compiling for {', '.join(TARGETS)}"):
        functions = []
        for function, name in [(target, operation)] if target else shipped:
            binding = binding_of(load_function(function), name, dialect)
            drawn = islice(seeded_cases(0, binding.domain, binding.features), CASES)
            functions.append((function, binding, [*fixture_cases(binding), *drawn]))
        found = look(functions, current(), record=kept)
        said = printed.lines()
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
            console.print(
                f"{name}: {counted(len(raised), 'call')} failed where no kernel ran: {raised[0]}",
                markup=False,
            )
    if said:
        console.print(printed_lines(said), markup=False, highlight=False, soft_wrap=True)
    flaws = sorted(found.flaws)
    for flaw in flaws:
        where = f"{in_repository(flaw.file)}:{flaw.line}"
        click.echo(f"{where}: {flaw.rule}: {flaw.text} (in {flaw.kernel})\n    {flaw.source}")
    for rule in sorted({flaw.rule for flaw in flaws}):
        click.echo(f"the rule of {rule}: {RULES[rule]}")
    findings = counted(len(flaws), "finding")
    click.echo(f"{findings} in {counted(len(found.kernels), 'kernel')}")
    if record is not None and kept is not None:
        for rise in kept.rises:
            click.echo(f"increase over {record.name}: {rise}")
        click.echo(f"{counted(kept.compiled, 'compile')} that {record.name} did not hold")
        with writing("--record", record):
            record.write_text(
                json.dumps(kept.content(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
            )
    if file is not None:
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
        broken = [{name: getattr(flaw, name) for name in fields} for flaw in flaws]
        write_json(file, {"kernels": kernels, "findings": broken})
    return flaws

"""``cumae lint``: static analysis of compiled kernels; needs no GPU."""

import os
from itertools import islice
from pathlib import Path

import click
from rich.console import Console
from rich.table import Column, Table

from cumae.oracle.model.rules import require
from cumae.properties.cases.seeded import seeded_cases
from cumae.properties.commands.json_file import write_json
from cumae.properties.operations import OPERATIONS
from cumae.properties.operations.binding import binding_of
from cumae.properties.operations.targets import load_function
from cumae.properties.results.counting import counted
from cumae.properties.running.device import current, imported_as
from cumae.properties.search.first_cases import fixture_cases

CASES = 40


def lint(target: str | None, operation: str | None, dialect: str, file: Path | None) -> int:
    """Compile and analyse the kernels that TARGET launches."""
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

    torch.set_num_threads(1)  # many small copies
    names = [operation] if operation else list(OPERATIONS)
    shipped = [(kernel, name) for name in names for kernel in OPERATIONS[name].kernels]
    functions = []
    for function, name in [(target, operation)] if target else shipped:
        loaded = load_function(function)
        if name is None and not hasattr(loaded, "cumae_binding"):
            raise ValueError("--op = None, must name the operation that TARGET computes")
        binding = binding_of(loaded, name or "", dialect)
        drawn = islice(seeded_cases(0, binding.domain, binding.features), CASES)
        functions.append((function, binding, [*fixture_cases(binding), *drawn]))
    console = Console()
    with console.status(f"compiling for {', '.join(TARGETS)}"):
        found = look(functions, current())
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
                f"{name}: {counted(len(raised), 'call')} raised where no kernel ran: {raised[0]}",
                markup=False,
            )
    flaws = sorted(found.flaws)
    for flaw in flaws:
        click.echo(
            f"{_shown(flaw.file)}:{flaw.line}: {flaw.rule}: {flaw.text} (in {flaw.kernel})\n    {flaw.source}"
        )
    for rule in sorted({flaw.rule for flaw in flaws}):
        click.echo(f"{rule}: {RULES[rule]}")
    findings = counted(len(flaws), "finding")
    click.echo(f"{findings} in {counted(len(found.kernels), 'kernel')}")
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
    return 1 if flaws else 0


def _shown(file: str) -> str:
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file

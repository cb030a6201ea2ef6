"""``cumae compare``: compare a candidate with its base bit for bit, and time both."""

import shlex
from itertools import chain, islice
from pathlib import Path

import click

from cumae.oracle import Case
from cumae.properties.bench.comparison import CHECK, first_difference, speed_ratio
from cumae.properties.cases.seeded import seeded_cases
from cumae.properties.commands import options
from cumae.properties.operations.binding import Binding, binding_of
from cumae.properties.operations.targets import load_function
from cumae.properties.results.counting import counted
from cumae.properties.results.explain import explain
from cumae.properties.results.failure_file import load_case, save_failure
from cumae.properties.results.verdict import Failure, Verdict
from cumae.properties.results.writable import require_folder, writing
from cumae.properties.running.device import Device, prepare
from cumae.properties.search.first_cases import fixture_cases


@click.command()
@click.argument("base")
@click.argument("candidate")
@options.operation("The operation that both compute.", required=True)
@options.dialect("How both functions name their arguments.")
@options.cases("Cases beyond the fixtures.", default=200)
@click.option(
    "--case", "file", type=click.Path(path_type=Path), help="Compare only on the case in this file."
)
@options.seed
@options.device
@options.failures
@click.option("--speed/--no-speed", default=None, help="Time both if they agree; the default on a GPU.")
def compare(
    base: str,
    candidate: str,
    operation: str,
    dialect: str,
    cases: int,
    file: Path | None,
    seed: int,
    device: str,
    failures: Path,
    speed: bool | None,
) -> int:
    """Compare the outputs of CANDIDATE and BASE bit for bit. Each is module:function.

    Compares whole buffers. Prints the first difference and saves its case. If there is none, prints the
    ratio of their times in alternating calls; on a CPU only with --speed, as the interpreter says little
    about a GPU.
    """
    require_folder("--failures", failures)
    chosen = prepare(device)
    old, new = (binding_of(load_function(target), operation, dialect) for target in (base, candidate))
    if {*old.outputs, *old.returned} != {*new.outputs, *new.returned}:
        names = ", ".join((*old.outputs, *old.returned))
        raise ValueError(f"candidate = {candidate!r}, must have the outputs of {base} ({names})")
    if file is None:
        drawn = islice(seeded_cases(seed, old.domain, old.features & new.features), cases)
        tried = chain[Case](fixture_cases(old), drawn)
    else:
        tried = chain[Case]([load_case(file, candidate, operation, dialect).case])
    finding, case, compared = first_difference(old, new, tried, chosen)
    if finding is None or case is None:
        if not compared:
            raise ValueError(f"cases = {cases}, must include one that both functions promise")
        click.echo(f"equal: {counted(compared, 'case')}, every output bit for bit")
        if chosen == "cuda" if speed is None else speed:
            _print_speed(old, new, chosen)
        return 0
    verdict = Verdict(candidate, operation, dialect, (CHECK,), compared, compared)
    verdict.failure = Failure(finding, case, compared)
    click.echo(f"{candidate} differs from {base} (expected: {base}, actual: {candidate})")
    click.echo(explain(verdict))
    with writing("--failures", failures, "folder"):
        saved = save_failure(failures, verdict, verdict.failure, base)
    again = ["cumae", "compare", base, candidate, "--op", operation, "--case", str(saved)]
    again += ["--dialect", dialect] if dialect != "cumae" else []
    again += ["--device", device] if device != "auto" else []
    click.echo(f"\n  reproduce: {shlex.join(again)}")
    return 1


def _print_speed(old: Binding, new: Binding, device: Device) -> None:
    ratio = speed_ratio(old, new, device)
    where = "in Triton's interpreter, no measure of a GPU" if device == "cpu" else "launched from Python"
    click.echo(
        f"time of candidate / base: {ratio.median:.2f} ({ratio.low:.2f} to {ratio.high:.2f}, 10 % to 90 %), "
        f"{ratio.candidate:.1f} and {ratio.base:.1f} µs {where}"
    )

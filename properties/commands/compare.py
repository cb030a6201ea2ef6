"""``cumae compare``: compare a candidate with its base bit for bit, and time both."""

import shlex
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import click

from cumae.oracle import Case
from cumae.oracle.model.rules import require
from cumae.properties.bench.comparison import CHECK, Compared, Ratio, first_difference, speed_ratio
from cumae.properties.bench.generated import generated_cases
from cumae.properties.commands import options
from cumae.properties.commands.progress import INTERRUPTED, telling
from cumae.properties.commands.results import fitted_report
from cumae.properties.engines.versions import binding_at
from cumae.properties.operations.binding import Binding, binding_of
from cumae.properties.operations.targets import load_function
from cumae.properties.results.case_text import MOST_CHARACTERS
from cumae.properties.results.counting import counted
from cumae.properties.results.explain import text_of
from cumae.properties.results.failure_file import load_case, save_failure
from cumae.properties.results.verdict import Failure, Verdict
from cumae.properties.results.writable import require_folder, writing
from cumae.properties.running.device import Device, current, prepare
from cumae.properties.running.machine import device_name, versions
from cumae.properties.search.printed import keeping_prints
from cumae.properties.taking.version import version

WORKING_TREE = "the working tree"


@dataclass(frozen=True, slots=True)
class Pair:
    """Two bound functions and their names, and the arguments of the command that name them again."""

    old: Binding
    new: Binding
    base: str
    candidate: str
    again: tuple[str, ...]


def compare(
    targets: tuple[str, ...],
    base: str | None,
    candidate: str | None,
    repo: Path,
    operation: str | None,
    dialect: str,
    cases: int,
    file: Path | None,
    seed: int,
    device: str,
    failures: Path,
    speed: bool | None,
) -> int:
    """Compare the outputs of CANDIDATE and BASE bit for bit. Each is module:function or file.py:function."""
    require_folder("--failures", failures)
    chosen = prepare(device)
    timed = chosen == "cuda" or base is not None if speed is None else speed
    versions = base is not None
    count = len(targets)
    require(versions or candidate is None, "--candidate", candidate, "be left out without --base")
    require(count == 2 - versions, "TARGET", " ".join(targets), _HOW_MANY[versions])
    with ExitStack() as stack:
        if base is not None:
            given = _of_versions(targets[0], base, candidate, repo, operation, dialect)
        else:
            given = _of_functions(targets[0], targets[1], operation, dialect)
        pair = _require_alike(stack.enter_context(given))
        tried = generated_cases(pair.old, pair.new, seed, cases)
        if file is not None:
            known = pair.old.operation.name, pair.old.dialect.name
            tried = iter([load_case(file, pair.candidate, *known).case])
        done, said, is_complete = _compared(pair, tried, chosen)
        if done.difference is not None:
            _print_difference(pair, Failure(*done.difference, done.cases), failures, device, said)
            return 1 if is_complete else INTERRUPTED
        if not is_complete:
            click.echo(f"interrupted: {counted(done.cases, 'case')} equal, every output bit for bit")
            return INTERRUPTED
        why = f": on {counted(done.raised, 'case')} both raise; {done.because}" if done.raised else ""
        require(done.cases > 0, "cases", cases, f"include one that both functions promise{why}")
        click.echo(f"equal: {counted(done.cases, 'case')}, every output bit for bit{_left_out(done)}")
        if timed:
            with telling("timing both in alternating calls"):
                ratio = speed_ratio(pair.old, pair.new, chosen)
            _print_speed(ratio, chosen)
    return 0


def _compared(pair: Pair, cases: Iterator[Case], device: Device) -> tuple[Compared, tuple[str, ...], bool]:
    """Compare until a difference or an interrupt.

    Returns what was compared, the last lines that the functions printed, and whether it was not interrupted.
    """
    done, is_complete = Compared(), True
    with telling("comparing") as tell, keeping_prints() as printed:

        def progress(state: str) -> None:
            printed.trim()
            tell(state)

        try:
            first_difference(pair.old, pair.new, cases, device, progress, done)
        except KeyboardInterrupt:
            is_complete = False
        return done, printed.lines(), is_complete


def _left_out(done: Compared) -> str:
    """Return in words which cases were not compared."""
    too_large = f"; {counted(done.too_large, 'case')} too large for the interpreter"
    raised = f"; {counted(done.raised, 'case')} left out, as both raise"
    return (too_large if done.too_large else "") + (raised if done.raised else "")


_HOW_MANY = {False: "be two functions, BASE and CANDIDATE", True: "be one function, compared with --base"}


def _as(operation: str, dialect: str) -> list[str]:
    return ["--op", operation, *(["--dialect", dialect] if dialect != "cumae" else [])]


@contextmanager
def _of_functions(base: str, candidate: str, operation: str | None, dialect: str) -> Iterator[Pair]:
    """Yield two functions named by targets."""
    for name in (base, candidate):
        options.say_if_taken(name)
    old, new = (binding_of(load_function(name), operation, dialect) for name in (base, candidate))
    given = _as(operation, dialect) if operation is not None else []
    yield Pair(old, new, base, candidate, (base, candidate, *given))


@contextmanager
def _of_versions(
    target: str, base: str, candidate: str | None, repo: Path, operation: str | None, dialect: str
) -> Iterator[Pair]:
    """Yield one function in two versions of its source tree, which must agree on its parameters."""
    names = f"--base = {base!r}", f"--candidate = {candidate or WORKING_TREE!r}"
    with version("--base", base, repo) as before, version("--candidate", candidate, repo) as after:
        old, was = binding_at(names[0], target, before, operation, dialect)
        new, has = binding_at(names[1], target, after, operation, dialect)
        for name, parameters in was.items():
            rule = f"{names[1]}, must have {name}({', '.join(parameters)}) as --base"
            if name not in has:
                raise ValueError(f"{rule}, has none")
            if has[name] != parameters:
                raise ValueError(f"{rule}, has {name}({', '.join(has[name])})")
        again = ["--base", base, *(["--candidate", candidate] if candidate else []), target]
        again += ["--repo", str(repo)] if repo != Path() else []
        again += _as(operation, dialect) if operation is not None else []
        yield Pair(old, new, f"{target} of {base}", f"{target} of {candidate or WORKING_TREE}", (*again,))


def _require_alike(pair: Pair) -> Pair:
    """Return the pair. Raises ``ValueError`` if the two have other outputs."""
    if {*pair.old.outputs, *pair.old.returned} != {*pair.new.outputs, *pair.new.returned}:
        names = ", ".join((*pair.old.outputs, *pair.old.returned))
        raise ValueError(f"candidate = {pair.candidate!r}, must have the outputs of {pair.base} ({names})")
    return pair


def _print_difference(
    pair: Pair, failure: Failure, failures: Path, device: str, printed: tuple[str, ...]
) -> None:
    """Print and save a difference, with the command that shows it again."""
    found_after = failure.found_after
    names = pair.candidate, pair.old.operation.name, pair.old.dialect.name
    verdict = Verdict(*names, (CHECK,), found_after, found_after)
    verdict.failure, verdict.printed = failure, printed
    verdict.versions = versions(device_name(current()))
    with writing("--failures", failures, "folder"):
        saved = save_failure(failures, verdict, failure, pair.base)
    command = ["cumae", "compare", *pair.again, *(["--device", device] if device != "auto" else []), "--case"]
    again = [f"reproduce: {shlex.join([*command, str(saved)])}"]
    text = text_of(verdict, failure, pair.base)
    if len(text) <= MOST_CHARACTERS:
        again.append(f"without a file: {shlex.join([*command, text])}")
    click.echo(f"{pair.candidate} differs from {pair.base} (expected: {pair.base}, actual: {pair.candidate})")
    click.echo(fitted_report(verdict, again=again))


def _print_speed(ratio: Ratio, device: Device) -> None:
    where = f"{ratio.candidate:.1f} and {ratio.base:.1f} µs launched from Python"
    if device == "cpu":
        where = "on a CPU, no measure of a GPU"
    spread = f"{ratio.low:.2f} to {ratio.high:.2f}, 10 % to 90 %"
    click.echo(f"time of candidate / base: {ratio.median:.2f} ({spread}), {where}")

"""The linter: records the kernels that functions launch, compiles and analyses them, and never runs them."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from cumae.oracle import Case
from cumae.properties.cases.domain import Domain
from cumae.properties.lint.addresses import narrow_products
from cumae.properties.lint.compiling import TARGETS, compile_for, missing_on, spread, texts_of
from cumae.properties.lint.counts import MOST_VALUES, counting_cases, most_programs
from cumae.properties.lint.dataflow import Module
from cumae.properties.lint.flaw import BOUNDED, COMPILES, Flaw
from cumae.properties.lint.launches import Interpreted, Launch, recording
from cumae.properties.lint.resources import Record, resources_of
from cumae.properties.lint.undefined import undefined_loads
from cumae.properties.operations.binding import Binding
from cumae.properties.operations.tracebacks import compile_line, message_of
from cumae.properties.running.bench import Bench
from cumae.properties.running.device import Device
from cumae.properties.running.observation import KernelRaised

MOST_SAID = 300  # characters: an assembler also prints the command line


@dataclass(slots=True)
class Looked:
    """The coverage of one kernel.

    ``launches``: recorded ones; ``variants``: analysed sets of types and constants; ``compiled``: variants
    compiled to machine code, by target; ``missing``: types that a target lacks; ``keys``: compiles needed for
    steps of all sizes.
    """

    name: str
    launches: int = 0
    variants: int = 0
    compiled: Counter[str] = field(default_factory=Counter)
    missing: dict[str, list[str]] = field(default_factory=dict)
    keys: int = 0


@dataclass(slots=True)
class Linted:
    """The result of a lint. ``raised``: by target, the errors of calls that failed."""

    kernels: dict[str, Looked] = field(default_factory=dict)
    flaws: set[Flaw] = field(default_factory=set)
    raised: dict[str, list[str]] = field(default_factory=dict)


def lint(
    functions: Iterable[tuple[str, Binding, Iterable[Case]]],
    device: Device = "cpu",
    targets: Sequence[str] = tuple(TARGETS),
    record: Record | None = None,
) -> Linted:
    """Return the flaws of the kernels that functions launch on their cases and on steps of many sizes.

    Each function is a target, its binding and its cases. Kernels that a ``record`` knows are not compiled.
    No kernel runs, so values that a function reads back from the device are poison. Raises ``ValueError``
    for a function that launches no kernel or an interpreted one.
    """
    found = Linted()
    recorded: list[tuple[Domain, Case, list[Launch]]] = []
    for target, binding, cases in functions:
        raised = found.raised.setdefault(target, [])
        try:
            of_cases = [(case, _launches(binding, case, device, raised)) for case in cases]
            counted = [(case, _launches(binding, case, device, raised)) for case in counting_cases(binding)]
        except Interpreted as kernel:
            rule = f"launch what Triton compiles: {kernel} was made with TRITON_INTERPRET=1"
            raise ValueError(f"target = {target!r}, must {rule}") from kernel
        if not any(launches for _, launches in (*of_cases, *counted)):
            why = f": it {raised[0]}" if raised else ""
            raise ValueError(f"target = {target!r}, must launch a Triton kernel{why}")
        recorded += [(binding.domain, *one) for one in (*of_cases, *counted)]
        _count_keys([launch for _, launches in counted for launch in launches], found)
    programs = most_programs(recorded)
    variants: dict[str, dict[object, Launch]] = defaultdict(dict)
    for launch in (launch for *_, launches in recorded for launch in launches):
        variants[launch.name][launch.variant] = launch
        _looked(found, launch.name).launches += 1
    for name, same in variants.items():
        _read(list(same.values()), programs[name], targets, record, _looked(found, name), found.flaws)
    return found


def _launches(binding: Binding, case: Case, device: Device, raised: list[str]) -> list[Launch]:
    """Record one call. A function that raises is noted, not judged, because its kernels have not run."""
    with recording() as launches:
        try:
            Bench(binding, case, device).call(poison=0).run()
        except KernelRaised as error:
            raised.append(str(error))
    return launches


def _read(
    same: list[Launch],
    programs: tuple[int, ...],
    targets: Sequence[str],
    record: Record | None,
    looked: Looked,
    flaws: set[Flaw],
) -> None:
    """Read every variant of a kernel, and compile a spread of them for each target."""
    texts = {}
    for launch in same:
        looked.variants += 1
        try:
            texts[launch.variant] = texts_of(launch)
        except Exception as error:  # a compiler may raise anything; each error is a finding
            flaws.add(_refused(launch, "any target", error))
            continue
        module = Module(texts[launch.variant].simplified)
        arguments = [name for name, kind in launch.types.items() if kind != "constexpr"]
        flaws |= set(narrow_products(module, launch.name, arguments, programs))
        flaws |= set(undefined_loads(module, launch.name))
    for launch in spread(launch for launch in same if launch.variant in texts):
        text = texts[launch.variant]
        for target in targets:
            if record is None or not record.known(launch, text.simplified, target):
                try:
                    compiled = compile_for(launch, target)
                except Exception as error:  # as above
                    if missing := missing_on(target, text):
                        looked.missing[target] = missing
                    else:
                        flaws.add(_refused(launch, target, error))
                    continue
                if record is not None:
                    record.add(launch, text.simplified, target, resources_of(compiled))
            looked.compiled[target] += 1


def _refused(launch: Launch, target: str, error: Exception) -> Flaw:
    """Return a compiler error as a flaw, at the line of the kernel if the error names one."""
    file, line, _ = compile_line(error, launch.kernel)
    said = " ".join(message_of(error).split())[:MOST_SAID]
    flaw = Flaw(file, line, COMPILES, launch.name, f"does not compile for {target}: {said}")
    named = {name: value for name, value in launch.constants.items() if name in _names_in(flaw.source)}
    told = ", ".join(f"{name} = {value!r}" for name, value in named.items())
    return replace(flaw, text=f"{flaw.text}; {told}") if told else flaw


def _names_in(source: str) -> set[str]:
    """Return the names in a line of source."""
    return set(re.findall(r"[^\W\d]\w*", source))


def _count_keys(launches: Iterable[Launch], found: Linted) -> None:
    """Count the compiles for steps of many sizes, and find arguments with too many values."""
    by_kernel = defaultdict(list)
    for launch in launches:
        by_kernel[launch.name].append(launch)
    for name, same in by_kernel.items():
        looked = _looked(found, name)
        looked.keys = max(looked.keys, len({launch.key for launch in same}))
        values = defaultdict(set)
        for launch in same:
            for argument, special in launch.key:
                values[argument].add(special)
        many = [
            f"{len(taken)} values of `{argument}`"
            for argument, taken in values.items()
            if len(taken) > MOST_VALUES
        ]
        if many:
            text = f"compiled anew for {', '.join(many)} over {len(same)} launches"
            found.flaws.add(Flaw(*same[0].place, BOUNDED, name, text))


def _looked(found: Linted, name: str) -> Looked:
    return found.kernels.setdefault(name, Looked(name))

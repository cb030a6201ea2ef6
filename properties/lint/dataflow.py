"""Parser of Triton's intermediate representation into operations and the values between them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from cumae.properties.lint.types_of_results import listed_types, result_types

_NAME = re.compile(r"%[\w.$-]+(?:#\d+)?")
_RESULTS = re.compile(r"((?:%[\w.$-]+(?::\d+)?(?:, )?)+) = (.*)")
LOCATION = re.compile(r" loc\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)")
"""The part of a line of the representation that says where its source stands."""
_CARRIED = re.compile(r"(%[\w.$-]+) = (%[\w.$-]+(?:#\d+)?)")
_COUNTED = re.compile(r"(%[\w.$-]+) = (\S+) to (\S+) step (\S+)")
_ENDINGS = ("scf.yield", "tt.reduce.return", "tt.scan.return")


@dataclass(eq=False, slots=True)
class Value:
    """One value. ``op``: the operation that computes it; ``sources``: values that it may take, through loops,
    branches and calls; ``flows``: the reverse; ``argument``: index of the kernel argument that it is, -1 for
    none; ``loop``: the loop that carries it from round to round.
    """

    type: str = ""
    op: "Op | None" = None
    sources: "list[Value]" = field(default_factory=list)
    flows: "list[Value]" = field(default_factory=list)
    uses: "list[tuple[Op, int]]" = field(default_factory=list)
    argument: int = -1
    loop: "Op | None" = None

    @property
    def bits(self) -> int:
        """Width of its integers in bits, 0 if it holds none."""
        match = re.search(r"(?:^|x)i(\d+)>?$", self.type)
        return int(match[1]) if match else 0


@dataclass(eq=False, slots=True)
class Op:
    """One operation and the loops and branches around it, outermost first.

    A counted loop's last result is its counter. Other results of loops, branches and reductions take the
    values that flow into them.
    """

    name: str
    text: str
    operands: list[Value]
    results: list[Value]
    around: "tuple[Op, ...]"
    location: str = ""


@dataclass(slots=True)
class _Region:
    """An open region: the values that its last operation's operands flow into, and its block's arguments."""

    op: Op
    targets: list[list[Value]] = field(default_factory=list)
    passed: list[Value] = field(default_factory=list)
    names: dict[str, Value] = field(default_factory=dict)


class Module:
    """A kernel's operations in order, including those of the functions it calls.

    ``merges``: values that no operation computes: arguments, those that loops, branches and calls pass on.
    """

    def __init__(self, text: str) -> None:
        self.ops: list[Op] = []
        self.merges: list[Value] = []
        self._regions: list[_Region] = []
        self._functions: dict[str, tuple[list[Value], list[list[Value]]]] = {}
        self._blocks: dict[str, list[Value]] = {}
        self._jumps: list[tuple[str, list[Value]]] = []
        self._locations: dict[str, str] = {}
        for line in text.splitlines():
            self._read(line.strip())
        for op in self.ops:
            if op.name == "tt.call":
                arguments, returned = self._functions[_symbol(op.text)]
                _join(op.operands, arguments)
                for values in returned:
                    _join(values, op.results)
            for i, value in enumerate(op.operands):
                value.uses.append((op, i))

    def place(self, op: Op) -> tuple[str, int]:
        """Return file and line of the source; for code of Triton's library, those of the caller."""
        return self._resolve(op.location) or ("", 0)

    def _resolve(self, location: str) -> tuple[str, int] | None:
        text = self._locations.get(location, location)
        if match := re.match(r'"([^"]*)":(\d+)', text):
            return None if "/triton/language/" in match[1] else (match[1], int(match[2]))
        inner = re.findall(r'#loc\d*|"[^"]*":\d+', text) if text != location else []
        return next((found for name in inner if (found := self._resolve(name))), None)

    def _read(self, line: str) -> None:
        if line.startswith("#loc"):
            name, _, text = line.partition(" = loc(")
            self._locations[name] = text[:-1]
            return
        bare = LOCATION.sub("", line).strip()
        location = line[line.rfind(" loc(") + 5 : -1] if line.endswith(")") else ""
        if bare.startswith("tt.func"):
            self._open_function(bare)
        elif bare.startswith("^"):
            self._open_block(bare)
        elif bare.startswith("}"):
            self._close(bare, location)
        elif bare and not bare.startswith("module"):
            self._operation(bare, location)

    def _open_function(self, line: str) -> None:
        self._regions = [_Region(Op("tt.func", line, [], [], ()))]
        self._blocks, self._jumps = {}, []
        arguments = self._arguments(line.partition("(")[2])
        self._functions[_symbol(line)] = (arguments, [])
        if " public " in line:
            for i, value in enumerate(arguments):
                value.argument = i

    def _open_block(self, line: str) -> None:
        region = self._regions[-1]
        arguments = self._arguments(line.partition("(")[2])
        if len(self._regions) == 1:
            self._blocks[re.findall(r"\^\w+", line)[0]] = arguments
        elif region.passed:
            for i, value in enumerate(arguments):
                _join([region.passed[i % len(region.passed)]], [value])

    def _arguments(self, text: str) -> list[Value]:
        found = []
        for part in re.split(r"(?=%)", text)[1:]:
            name, _, kind = part.partition(": ")
            value = self._define(name)
            value.type = re.split(r", |\)| \{", kind)[0]
            found.append(value)
        self.merges += found
        return found

    def _close(self, line: str, location: str) -> None:
        if not self._regions:
            return
        region = self._regions.pop()
        region.op.location = location or region.op.location
        if line.endswith("{"):  # else, do
            self._regions.append(_Region(region.op, region.targets, region.passed))
        elif not self._regions:
            for label, values in self._jumps:
                _join(values, self._blocks[label])
        elif line.startswith("})"):
            _typed(region.op.results, line.rpartition("-> ")[2])

    def _operation(self, line: str, location: str) -> None:
        named = _RESULTS.fullmatch(line)
        names, body = (named[1], named[2]) if named else ("", line)
        name = re.findall(r"[\w.]+", body)[0]
        plain = re.sub(r'"[^"]*"', "", body)
        op = Op(name, body, [], [], tuple(region.op for region in self._regions[1:]), location)
        self.ops.append(op)
        if name in ("scf.for", "scf.while"):
            self._loop(op, plain, names)
            return
        op.operands = [self._look_up(operand) for operand in _NAME.findall(plain)]
        op.results = self._results(names)
        if body.endswith("{"):
            passed = [] if name == "scf.if" else op.operands
            self._regions.append(_Region(op, [op.results], passed))
            _typed(op.results, body.rpartition("-> ")[2])
            self.merges += op.results
            return
        for value in op.results:
            value.op = op
        _typed(op.results, result_types(name, body))
        region = self._regions[-1]
        if name in _ENDINGS:
            for target in region.targets:
                _join(op.operands, target)
        elif name == "scf.condition":
            region.passed = op.operands[1:]
            _join(region.passed, region.op.results)
        elif name == "tt.return":
            list(self._functions.values())[-1][1].append(op.operands)
        elif name.startswith("cf."):
            for label, given in re.findall(r"(\^\w+)(?:\(([^)]*)\))?", plain):
                self._jumps.append((label, [self._look_up(n) for n in _NAME.findall(given)]))

    def _loop(self, op: Op, text: str, names: str) -> None:
        """Open a loop: a carried value is its initial value or the value that the last round yields."""
        is_counted = op.name == "scf.for"
        held_text = text.partition("iter_args")[2] if is_counted else text
        carried = _CARRIED.findall(held_text)
        counted = _COUNTED.search(text) if is_counted else None
        bounds = [self._look_up(name) for name in counted.groups()[1:]] if counted else []
        starts = [self._look_up(start) for _, start in carried]
        op.operands = bounds + starts
        op.results = self._results(names)
        self._regions.append(_Region(op))
        held = [self._define(name) for name, _ in carried]
        for value in held:
            value.loop = op
        kinds = held_text.rpartition("->")[2]
        _typed(held, text.partition(" : ")[2] if not is_counted else kinds)
        _typed(op.results, kinds)
        _join(starts, held)
        self.merges += [*held, *op.results]
        self._regions[-1].targets = [held]
        if counted:
            _join(starts, op.results)
            self._regions[-1].targets.append(list(op.results))
            counter = self._define(counted[1])
            width = re.search(r": (i\d+) \{$", text)
            counter.op, counter.type = op, width[1] if width else "i64"
            op.results.append(counter)

    def _results(self, names: str) -> list[Value]:
        found = []
        for name in filter(None, names.split(", ")):
            base, _, count = name.partition(":")
            parts = [f"{base}#{i}" for i in range(int(count))] if count else [base]
            found += [self._define(part) for part in parts]
        return found

    def _define(self, name: str) -> Value:
        return self._regions[-1].names.setdefault(name, Value())

    def _look_up(self, name: str) -> Value:
        for region in reversed(self._regions):
            if name in region.names:
                return region.names[name]
        return self._regions[0].names.setdefault(name, Value())


def _symbol(text: str) -> str:
    return text.partition("@")[2].partition("(")[0]


def _join(sources: Sequence[Value], targets: Sequence[Value]) -> None:
    for source, target in zip(sources, targets, strict=False):
        target.sources.append(source)
        source.flows.append(target)


def _typed(values: Sequence[Value], text: str) -> None:
    for value, kind in zip(values, listed_types(text), strict=False):
        value.type = kind

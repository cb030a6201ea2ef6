"""Registers, stack and shared memory of compiled kernels, and a record of them that avoids compiles."""

import json
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

import triton

from cumae.oracle.model.rules import require
from cumae.properties.lint.launches import Launch

_LOCATION = re.compile(r"^#loc.*\n| ?loc\((?:[^()]|\([^()]*\))*\)", re.M)


@dataclass(frozen=True, slots=True)
class Resources:
    """``registers`` of a thread (VGPRs on AMD); ``stack``: bytes of a thread, spilled registers among them;
    ``shared``: bytes of a program.
    """

    registers: int
    stack: int
    shared: int


def resources_of(compiled: Any) -> Resources:
    """Return what a compiled kernel needs, as the tools of the GPU's vendor tell it."""
    if "cubin" in compiled.asm:
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(compiled.asm["cubin"])
            file.flush()
            command = [triton.knobs.nvidia.cuobjdump.path, "--dump-resource-usage", file.name]
            said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        registers, stack = (int(re.findall(rf"{name}:(\d+)", said)[-1]) for name in ("REG", "STACK"))
    else:
        said = compiled.asm["amdgcn"]
        names = ("vgpr_count", "private_segment_fixed_size")
        registers, stack = (int(re.findall(rf"\.{name}:\s+(\d+)", said)[-1]) for name in names)
    return Resources(registers, stack, compiled.metadata.shared)


class Record:
    """The resources of each kernel variant on each target, with a digest of the TTIR that was compiled.

    ``rises``: resources that increased since this version of Triton wrote the record.
    """

    def __init__(self, content: Mapping[str, Any]) -> None:
        self._triton = version("triton")
        is_ours = content.get("triton") == self._triton
        self._before: dict[str, dict[str, Any]] = dict(content["kernels"]) if is_ours else {}
        self._now: dict[str, dict[str, Any]] = {}
        self.compiled = 0
        self.rises: list[str] = []

    def known(self, launch: Launch, text: str, target: str) -> bool:
        """Return whether the record holds this TTIR for a target, and keep what it holds."""
        name, digest = _variant(launch), _digest(text)
        kept = self._before.get(name, {})
        if kept.get("text") != digest or target not in kept:
            return False
        self._now.setdefault(name, {"text": digest})[target] = kept[target]
        return True

    def add(self, launch: Launch, text: str, target: str, found: Resources) -> None:
        """Record the resources of a compile, and compare them with the former ones."""
        name = _variant(launch)
        self._now.setdefault(name, {"text": _digest(text)})[target] = asdict(found)
        self.compiled += 1
        before = self._before.get(name, {}).get(target, {})
        for field in (one.name for one in fields(Resources)):
            was, has = before.get(field), getattr(found, field)
            if was is not None and has > was:
                self.rises.append(f"{name} for {target}: {field} {was} → {has}")

    def content(self, is_whole: bool) -> dict[str, Any]:
        """Return the record as JSON; unless the run ``is_whole``, with kernels that it did not compile."""
        kernels = dict(self._now)
        if not is_whole:
            seen = {_kernel(name) for name in kernels}
            kernels |= {name: one for name, one in self._before.items() if _kernel(name) not in seen}
        return {"triton": self._triton, "kernels": dict(sorted(kernels.items()))}


def record_in(file: Path) -> Record:
    """Return the record in a file, an empty one if there is none. Raises ``ValueError`` for other content."""
    if not file.exists():
        return Record({})
    try:
        content = json.loads(file.read_text())
    except json.JSONDecodeError as error:
        raise ValueError(f"--record = {str(file)!r}, must be JSON: {error}") from None
    is_record = isinstance(content, dict) and isinstance(content.get("kernels"), dict)
    require(is_record, "--record", str(file), "be a file that this option has written")
    return Record(content)


def _variant(launch: Launch) -> str:
    return f"{launch.name}({', '.join(_parts(launch))})"


def _kernel(variant: str) -> str:
    return variant.partition("(")[0]


def _parts(launch: Launch) -> Iterator[str]:
    for name, kind in launch.types.items():
        yield f"{name}={launch.constants[name]!r}" if name in launch.constants else f"{name}: {kind}"
    yield from (f"{name}={value!r}" for name, value in launch.options.items())


def _digest(text: str) -> str:
    """Return a digest of the TTIR without its locations in source files."""
    return sha256(_LOCATION.sub("", text).encode()).hexdigest()[:16]

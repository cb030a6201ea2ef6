"""Processes under a sanitizer: Triton's own assertions, or CUDA's memory checker."""

import os
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from cumae.oracle.model.rules import require, require_choice
from cumae.properties.running.device import Device

SANITIZERS = ("debug", "memcheck")
_VARIABLE = "CUMAE_SANITIZE"
_LOG = "sanitizer.log"
_TOLD = {
    "debug": re.compile(r"Assertion .* failed"),
    "memcheck": re.compile(r"=+ ((?:Invalid|Misaligned|Program hit|Uninitialized) .*|    at .*)"),
}


@dataclass(frozen=True, slots=True)
class Sanitizer:
    """The command prefix and the environment that start a process under a sanitizer.

    ``debug`` enables ``tl.device_assert`` and overflow assertions on integers of less than 64 bits, in
    masked-off lanes too. ``memcheck`` is CUDA's, with a separate allocation for each tensor.
    """

    name: str = ""
    command: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)

    def before(self, folder: Path) -> tuple[str, ...]:
        """Return the command prefix of a process that logs to a folder."""
        return tuple(part.replace("LOG", str(folder / _LOG)) for part in self.command)

    def errors(self, folder: Path) -> int | None:
        """Return a descriptor of the file for standard error; None to inherit that of this process.

        A failed assertion on a GPU writes one line there for each thread.
        """
        if self.name != "debug":
            return None
        return os.open(folder / _LOG, os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    def told(self, folder: Path) -> str:
        """Return the sanitizer's report of the first fault in one line; empty if there is none."""
        file = folder / _LOG
        if not file.exists():
            return ""
        return first_fault(self.name, file.read_text(errors="replace"))


def sanitizer_of(name: str, device: Device) -> Sanitizer:
    """Return the named sanitizer, "" for none. Raises ``ValueError`` if it cannot run here."""
    if not name:
        return Sanitizer()
    require_choice("--sanitize", name, SANITIZERS)
    if name == "debug":
        return Sanitizer(name, (), {_VARIABLE: name, "TRITON_DEBUG": "1"})
    require(device == "cuda", "--sanitize", name, "be debug on the CPU: memcheck needs a GPU")
    tool = shutil.which("compute-sanitizer")
    rule = "be debug where compute-sanitizer is not on the PATH: it comes with the CUDA toolkit"
    require(tool is not None, "--sanitize", name, rule)
    command = (str(tool), "--tool", "memcheck", "--log-file", "LOG", "--target-processes", "all")
    return Sanitizer(name, command, {_VARIABLE: name, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"})


def sanitizing() -> str:
    """Return the name of the sanitizer that this process runs under, "" for none."""
    return os.environ.get(_VARIABLE) or ("debug" if os.environ.get("TRITON_DEBUG") == "1" else "")


def first_fault(name: str, log: str) -> str:
    """Return the first fault in a sanitizer's log, followed by its place."""
    found = [match for match in map(_TOLD[name].search, log.splitlines()) if match]
    if name == "debug":
        return found[0].string.strip() if found else ""
    return " ".join(match[1].strip() for match in found[:2])

"""Records of measurements, as the files in ``ci/results`` hold them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cumae.properties.running.machine import machine


def measured(command: str, **found: Any) -> dict[str, Any]:
    """Return the record of what a command measured: the machine, the command and the figures."""
    return {**machine(), "command": command, **found}


def write_record(file: Path, record: Mapping[str, Any]) -> None:
    """Write a record as JSON."""
    file.write_text(json.dumps(record, indent=1) + "\n")

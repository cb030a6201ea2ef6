"""Records of measurements, as the files in ``ci/results`` hold them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write_record(file: Path, record: Mapping[str, Any]) -> None:
    """Write a record as JSON."""
    file.write_text(json.dumps(record, indent=1) + "\n")

"""The number of cases for a test item under each profile, and the folder of saved failures."""

from pathlib import Path

FAILURES = Path(".cumae/failures")
EXAMPLES = {"quick": 40, "ci": 100, "nightly": 2000}
SOAK_SECONDS = 600.0
PROFILES = (*EXAMPLES, "soak")

"""How many cases a test item takes under each profile, and where failures are saved."""

from pathlib import Path

FAILURES = Path(".cumae/failures")
EXAMPLES = {"quick": 40, "ci": 100, "nightly": 2000}
SOAK_SECONDS = 600.0
PROFILES = (*EXAMPLES, "soak")

"""The number of cases for a test item under each profile, and defaults of searches."""

from pathlib import Path

FAILURES = Path(".cumae/failures")
EXAMPLES = {"quick": 40, "ci": 100, "nightly": 2000}
LIMIT_SECONDS = 60.0
"""Seconds that a case may take in an isolated process."""
SOAK_SECONDS = 600.0
PROFILES = (*EXAMPLES, "soak")

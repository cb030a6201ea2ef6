"""Settings of a pytest run from options and ini values: device, profile, seed, shards, folder."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cumae.oracle.model.rules import require_choice
from cumae.properties.search.profiles import EXAMPLES, FAILURES, PROFILES, SOAK_SECONDS

HELP = {
    "device": "where cumae's kernels run: auto, cpu (Triton's interpreter) or cuda",
    "profile": "cases per item: quick (40, the default), ci (100), nightly (2,000) or soak (ten minutes)",
    "seed": "seed of the random cases (default 0)",
    "shards": "items per check, each with its own seed (default 1)",
    "coverage": "file for the coverage of interpreted kernels, in the format of coverage.py (default none)",
    "failures": f"folder for saved failures (default {FAILURES})",
}


@dataclass(frozen=True, slots=True)
class Settings:
    """The values of a run. ``device``: empty if none is given."""

    device: str
    profile: str
    seed: int
    shards: int
    failures: Path
    coverage: Path | None

    def budget(self, examples: int) -> tuple[int | None, float | None]:
        """Return the cases and seconds of an item with ``examples`` cases under the quick profile."""
        if self.profile == "soak":
            return None, SOAK_SECONDS
        return -(-examples * EXAMPLES[self.profile] // EXAMPLES["quick"]), None


def settings_of(config: Any) -> Settings:
    """Return the settings of a pytest run: the option, else the ini value, else the default.

    Raises ``ValueError`` naming the option, its value and the rule.
    """
    given = {name: str(config.getoption(f"cumae_{name}") or config.getini(f"cumae_{name}")) for name in HELP}
    profile = given["profile"] or "quick"
    require_choice("--cumae-profile", profile, PROFILES)
    seed = _whole("--cumae-seed", given["seed"] or "0", 0)
    shards = _whole("--cumae-shards", given["shards"] or "1", 1)
    coverage = Path(given["coverage"]) if given["coverage"] else None
    return Settings(given["device"], profile, seed, shards, Path(given["failures"] or FAILURES), coverage)


def _whole(name: str, text: str, low: int) -> int:
    if not (text.isascii() and text.isdigit() and int(text) >= low):
        raise ValueError(f"{name} = {text!r}, must be a whole number >= {low}")
    return int(text)

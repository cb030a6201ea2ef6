"""Settings of a pytest run from options and ini values: device, profile, seed, shards, folder, database."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cumae.properties.search.profiles import EXAMPLES, FAILURES, PROFILES, SOAK_SECONDS

HELP = {
    "device": "where cumae's kernels run: auto, cpu (Triton's interpreter) or cuda",
    "profile": "cases per item: quick (40, the default), ci (100), nightly (2,000) or soak (ten minutes)",
    "seed": "seed of the random cases (default 0)",
    "shards": "items per check, each with its own seed (default 1)",
    "coverage": "file for the coverage of interpreted kernels, in the format of coverage.py (default none)",
    "failures": f"folder for saved failures (default {FAILURES})",
    "database": "failures that machines share, such as redis://host:6379/0 (default: $CUMAE_DATABASE)",
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
    database: str

    @property
    def shown_database(self) -> str:
        """The address of the database without user and password."""
        if not self.database:
            return ""
        from cumae.properties.search.database import without_user

        return without_user(self.database)

    def budget(self, examples: int) -> tuple[int | None, float | None]:
        """Return the cases and seconds of an item with ``examples`` cases under the quick profile."""
        if self.profile == "soak":
            return None, SOAK_SECONDS
        return -(-examples * EXAMPLES[self.profile] // EXAMPLES["quick"]), None


def header_lines(config: Any) -> list[str]:
    """Return what was chosen and where, in three lines; none if nothing was chosen.

    A value without a source is the default.
    """
    sources = {name: _source(config, name) for name in HELP}
    if not any(sources.values()):
        return []
    settings = settings_of(config)
    cases, seconds = settings.budget(EXAMPLES["quick"])
    long = f"{cases:,} cases an item" if cases is not None else f"{seconds:.0f} s an item"
    values = {
        "device": settings.device or "none chosen: the CPU, in isolated processes",
        "profile": f"{settings.profile} ({long})",
        "seed": str(settings.seed),
        "shards": str(settings.shards),
        "coverage": str(settings.coverage or "not written"),
        "failures": str(settings.failures),
        "database": settings.shown_database or "none",
    }
    told = {name: f"{name} {value}{sources[name]}" for name, value in values.items()}
    rows = (("device", "profile"), ("seed", "shards", "coverage"), ("failures", "database"))
    return ["cumae: " + ", ".join(told[name] for name in row) for row in rows]


def _source(config: Any, name: str) -> str:
    """Return where the value of a setting comes from, "" for its default."""
    if config.getoption(f"cumae_{name}"):
        return " (option)"
    if config.getini(f"cumae_{name}"):
        return " (ini)"
    return " ($CUMAE_DATABASE)" if name == "database" and os.environ.get("CUMAE_DATABASE") else ""


def settings_of(config: Any) -> Settings:
    """Return the settings of a pytest run: the option, else the ini value, else the default.

    Raises ``ValueError`` naming the option, its value and the rule.
    """
    given = {name: str(config.getoption(f"cumae_{name}") or config.getini(f"cumae_{name}")) for name in HELP}
    profile = given["profile"] or "quick"
    if profile not in PROFILES:  # the plugin is in every pytest run, and this imports all oracles
        from cumae.oracle.model.rules import require_choice

        require_choice("--cumae-profile", profile, PROFILES)
    seed = _whole("--cumae-seed", given["seed"] or "0", 0)
    shards = _whole("--cumae-shards", given["shards"] or "1", 1)
    coverage = Path(given["coverage"]) if given["coverage"] else None
    folder = Path(given["failures"] or FAILURES)
    return Settings(given["device"], profile, seed, shards, folder, coverage, _address(given["database"]))


def _address(given: str) -> str:
    """Return the address of the database, "" if none is set; imports what it needs only if one is."""
    if not given and not os.environ.get("CUMAE_DATABASE"):
        return ""
    from cumae.properties.search.database import address_of

    return address_of("--cumae-database", given, os.environ)


def _whole(name: str, text: str, low: int) -> int:
    if not (text.isascii() and text.isdigit() and int(text) >= low):
        raise ValueError(f"{name} = {text!r}, must be a whole number >= {low}")
    return int(text)

"""The numbers an operation takes beyond the batch, in groups; every default is the neutral value."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any

from cumae.oracle.model.heads import Heads
from cumae.oracle.model.latent_rows import LatentRows
from cumae.oracle.model.option_groups import (
    Blocks,
    Chunks,
    Drafts,
    Keys,
    Padding,
    Parallel,
    Ring,
    Schedule,
    Selection,
    WindowRows,
    Workspace,
)
from cumae.oracle.model.router import Router
from cumae.oracle.model.rules import require


@dataclass(frozen=True, slots=True)
class Options:
    """Options of all operations, a record for each group. No two groups have a field of the same name."""

    parallel: Parallel = Parallel()
    blocks: Blocks = Blocks()
    keys: Keys = Keys()
    padding: Padding = Padding()
    rows: LatentRows = LatentRows()
    selection: Selection = Selection()
    schedule: Schedule = Schedule()
    workspace: Workspace = Workspace()
    chunks: Chunks = Chunks()
    router: Router = Router()
    drafts: Drafts = Drafts()
    window_rows: WindowRows = WindowRows()
    ring: Ring = Ring()
    heads: Heads = Heads()

    def __post_init__(self) -> None:
        for name, kind in GROUPS.items():
            value = getattr(self, name)
            if not isinstance(value, kind):
                require(False, name, value, f"be {kind.__name__}")

    @classmethod
    def of(cls, **values: Any) -> "Options":
        """Return neutral options but for these fields, each in the group that has it.

        Raises ``ValueError`` for a field that no group has.

        >>> Options.of(topk=3, rank=1).parallel
        Parallel(rank=1, interleave=1)
        """
        try:
            return _of(tuple(values), *values.values())
        except TypeError:  # as in _with
            return NEUTRAL_OPTIONS.having(**values)

    def having(self, **values: Any) -> "Options":
        """Return the options with other values of some fields, each in the group that has it."""
        changed: dict[str, dict[str, Any]] = {}
        for name, value in values.items():
            if name not in GROUP_OF:
                require(False, name, value, f"be an option: {', '.join(sorted(GROUP_OF))}")
            changed.setdefault(GROUP_OF[name], {})[name] = value
        groups = {group: _with(getattr(self, group), its) for group, its in changed.items()}
        return replace(self, **groups)

    def value(self, name: str) -> Any:
        """Return the value of a field, whichever group has it. Raises ``ValueError`` for another name."""
        if name not in GROUP_OF:
            rule = f"be one of {', '.join(sorted(GROUP_OF))}"
            require(False, "option", name, rule, hint=_ELSEWHERE.get(name, ""))
        return getattr(getattr(self, GROUP_OF[name]), name)


_ELSEWHERE = {name: f" (it is `case.batch.{name}`)" for name in ("world", "block_size")}


def _with(group: Any, values: dict[str, Any]) -> Any:
    """Return a group with other values; few are ever in use, and each is made and checked once."""
    try:
        return _made(group, tuple(values), *values.values())
    except TypeError:  # a value without a hash, which the group refuses
        return replace(group, **values)


@lru_cache(maxsize=4096, typed=True)
def _made(group: Any, names: tuple[str, ...], *values: Any) -> Any:
    return replace(group, **dict(zip(names, values, strict=True)))


@lru_cache(maxsize=4096, typed=True)
def _of(names: tuple[str, ...], *values: Any) -> Options:
    return NEUTRAL_OPTIONS.having(**dict(zip(names, values, strict=True)))


GROUPS: Mapping[str, type[Any]] = {one.name: type(one.default) for one in fields(Options)}
GROUP_OF: Mapping[str, str] = {one.name: group for group, kind in GROUPS.items() for one in fields(kind)}
"""The group of each field."""
NEUTRAL_OPTIONS = Options()

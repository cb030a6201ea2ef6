"""The ranges and tables from which the values of a record's fields are drawn."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from cumae.oracle import Batch, Layout
from cumae.oracle.model.options import GROUPS
from cumae.properties.cases.choices import Choices

if TYPE_CHECKING:
    from cumae.properties.cases.domain import Domain

_RECORDS: tuple[type[Any], ...] = (Layout, *GROUPS.values())
NEUTRAL: Mapping[str, Any] = {one.name: one.default for kind in _RECORDS for one in fields(kind)} | {
    "world": 1
}
"""The neutral value of every field."""
_PLAIN = Layout()


class Draw:
    """The inputs for drawing a record's fields: choices, the domain, and the values drawn before.

    ``strided``: whether tables and rows have gaps. ``keys``: whether keys are compressed or limited to a
    window per token; the two exclude each other.
    """

    def __init__(
        self,
        choices: Choices,
        domain: "Domain",
        batch: Batch,
        layout: Layout | None = None,
        *,
        strided: bool = False,
        keys: str = "plain",
    ) -> None:
        self.choices = choices
        self.domain = domain
        self.batch = batch
        self.layout = layout or _PLAIN
        self.strided = strided
        self.keys = keys
        self.features: Collection[str] = ()
        self.values: dict[str, Any] = {}

    @property
    def num_rows(self) -> int:
        """Rows of tokens, padding included."""
        return self.batch.num_tokens + self.layout.num_padding_tokens

    @property
    def is_padded(self) -> bool:
        """Whether the domain has padding."""
        return self.domain.padding != "none"

    def limits_keys_by(self, name: str) -> bool:
        """Whether keys are compressed, or limited to a window, as the field says.

        An operation that has only one of the two fields varies it for both.
        """
        kind, other = ("window", "compress_ratio") if name == "window" else ("compressed", "window")
        return self.keys == kind or (self.keys != "plain" and other not in self.features)

    @property
    def keeps_groups(self) -> bool:
        """Whether all tokens of a compressed key must be on one rank."""
        return self.batch.world > 1 and "split_groups" not in self.features

    def pick(self, name: str, usual: Sequence[Any], fits: Callable[[Any], bool] = lambda value: True) -> Any:
        """Return one of the usual values of a field, or of the promised ones."""
        return self.choices.pick([v for v in self.domain.among(name, usual) if fits(v)] or [NEUTRAL[name]])

    def integer(self, name: str, low: int, high: int) -> int:
        """Return an integer of ``[low, high]``, or a promised one in it."""
        if name not in self.domain.values:
            return self.choices.integer(low, high)
        return int(self.pick(name, (), lambda value: low <= value <= high))

    def flag(self, name: str, percent: int, *, odd: bool = True) -> bool:
        """Return ``odd`` in about ``percent`` of 100 draws, or a promised value."""
        promised = set(self.domain.among(name, (False, True)))
        return promised.pop() if len(promised) == 1 else self.choices.chance(percent) == odd

"""An output of an operation, or an engine's name and format for it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cumae.oracle import Case, Inputs
from cumae.properties.dialects.held import ByteArray, Held, IntArray

Expect = Callable[[Any, Inputs], list[Any]]
Place = Callable[[Case, IntArray], IntArray]


@dataclass(frozen=True, slots=True)
class Piece:
    """The source of bytes in an output's row: an input of rows, and a range of its columns.

    ``encode`` returns the bytes for whole rows of the input, if they are not copied. ``in_units``: whether
    the last index of a source counts the output's rows within a row of the input. ``place`` returns where
    sources [rows, indices] lie in the input, if not where the oracle's indices say.
    """

    name: str
    start: Callable[[Case], int] = lambda case: 0
    encode: Callable[[Case, ByteArray], ByteArray] | None = None
    in_units: bool = False
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Output:
    """One output of an operation, or the form in which a dialect holds one.

    Only the name is required. A dialect's output ``follows`` an output of the operation, by default the one
    of its own name, and inherits its dtype, axis and shape unless it gives them.

    ``dtype``: of its elements, as text or as a function of the case. ``axis``: the things that an index
    counts, a name in ``operations.axes.AXES``; an output with another axis is compared, but its elements have
    no place in a report and no metamorphic relation. ``rule``: the sentence it must obey; "" for the
    operation's. ``shape``: by default one entry for each thing on the axis. ``strides``: in elements, dense
    by default. ``expect`` returns the value of each element, or the source of each row, from the oracle's
    answer and the inputs: an integer, a float, UNTOUCHED, ANY, or for rows ``(kind, *index)``; by default the
    answer's field with the name of the followed output. ``pieces``: for rows, the input that each kind of
    source points into. ``before``: the content of an in-place argument before the call.

    ``starts``: the initial value of each element, for a buffer that persists from step to step. ``per_item``:
    elements of each item of the axis, if an output packs several into one. ``carries``: features of a case
    that its length shows. ``optional``: a function that returns its outputs may omit this one. ``unordered``:
    of a judged operation, elements that are not -1 may stand in any order, which may differ between calls.
    ``settles``: options of which its form allows one value alone. ``is_list``: a function that returns it may
    leave out what stands behind the last value. ``is_captured``: whether a case read back from dumped tensors
    contains everything that determines the output. ``mistaken``: by cause, in words, the values of another
    form that a function may give instead.
    """

    name: str
    dtype: str | Callable[[Case], str] = ""
    axis: str = ""
    rule: str = ""
    shape: Callable[[Case], tuple[int, ...]] | None = None
    follows: str = ""
    strides: Callable[[Case], tuple[int, ...]] | None = None
    expect: Expect | None = None
    pieces: Mapping[str, Piece] | None = None
    before: Callable[[Inputs], Held] | None = None
    starts: int | None = None
    per_item: int = 1
    carries: tuple[str, ...] = ()
    optional: bool = False
    unordered: bool = False
    settles: Mapping[str, Any] = field(default_factory=dict)
    is_list: bool = False
    is_captured: bool = True
    mistaken: Mapping[str, Callable[[Inputs], Sequence[int]]] = field(default_factory=dict)

    @property
    def is_rows(self) -> bool:
        """Whether the elements are rows of bytes."""
        return self.pieces is not None

    @property
    def is_fp32(self) -> bool:
        """Whether the elements are numbers of fp32, compared by their bits."""
        return self.dtype == "fp32" and not self.is_rows

    @property
    def is_in_place(self) -> bool:
        """Whether the output is an input too, with content before the call."""
        return self.before is not None

    def dtype_for(self, case: Case) -> str:
        """Return the dtype of the elements for a case."""
        return self.dtype if isinstance(self.dtype, str) else self.dtype(case)

    def values(self, answer: Any, inputs: Inputs) -> list[Any]:
        """Return the value of each element, or the source of each row, from an oracle's answer."""
        if self.expect is not None:
            return self.expect(answer, inputs)
        found: list[Any] = getattr(answer, self.follows or self.name)
        return found

"""An output of an operation, or the form in which an engine names and holds it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cumae.oracle import Case, Inputs
from cumae.properties.dialects.held import ByteArray, Held

Expect = Callable[[Any, Inputs], list[Any]]


@dataclass(frozen=True, slots=True)
class Piece:
    """Where the bytes of an output's row come from: an input of rows, and a range of its columns.

    ``encode`` returns the bytes that whole rows of the input become, where they are not copied.
    """

    name: str
    start: Callable[[Case], int] = lambda case: 0
    encode: Callable[[Case, ByteArray], ByteArray] | None = None


@dataclass(frozen=True, slots=True)
class Output:
    """One output of an operation, or the form in which a dialect holds one.

    Only the name is always needed. A dialect's output ``follows`` an output of the operation, by default the
    one of its own name, and has the dtype, axis and shape of that one where it gives none.

    ``dtype``: of its elements, as text or as a function of the case. ``axis``: what an index counts, a name
    in ``operations.axes.AXES``; an output with another axis is compared, but its elements have no place in a
    report and no metamorphic relation. ``rule``: the sentence it must obey; "" for that of the operation.
    ``shape``: by default one entry for everything that the axis counts. ``strides``: in elements, dense by
    default. ``expect`` returns the value of each element, or the source of each row, from the oracle's answer
    and the inputs: an integer, a float, UNTOUCHED, ANY, or for rows ``(kind, *index)``; by default the
    answer's field of the name that the output follows. ``pieces``: for rows, the input that each kind of
    source points into. ``before``: what an argument that is input and output holds before the call.

    ``starts``: what each element of a buffer that its owner keeps from step to step holds before the first.
    ``per_item``: elements of each item of the axis, in an output that packs several into one. ``carries``:
    features of a case that its length shows. ``optional``: a function that returns its outputs may leave this
    one out. ``unordered``: of a judged operation, elements that are not -1 may stand in any order, and in
    another one at each call. ``is_captured``: whether a case that is read back from dumped tensors says
    everything that the output follows from.
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
    is_captured: bool = True

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
        """Whether the output is an input too: it holds something before the call."""
        return self.before is not None

    def dtype_for(self, case: Case) -> str:
        """Return the dtype of the elements for a case."""
        return self.dtype if isinstance(self.dtype, str) else self.dtype(case)

    def values(self, answer: Any, inputs: Inputs) -> list[Any]:
        """Return the value of each element, or the source of each row, by an oracle's answer."""
        if self.expect is not None:
            return self.expect(answer, inputs)
        found: list[Any] = getattr(answer, self.follows or self.name)
        return found

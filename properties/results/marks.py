"""The elements of a finding in its case: the place of the first one, and the marks of a drawing."""

from dataclasses import dataclass, field

from cumae.oracle import Case
from cumae.properties.operations.axes import axis_named
from cumae.properties.operations.places import Place, Placing, Seen
from cumae.properties.results.verdict import Finding


@dataclass(frozen=True, slots=True)
class Marks:
    """The parts of a case that a drawing marks as wrong.

    ``positions``: wrong positions of each request; ``padding``: wrong padding tokens, counted from
    the first; ``ends``: requests with a wrong ``cu_seqlens`` entry at their end.
    """

    positions: dict[int, frozenset[int]] = field(default_factory=dict)
    padding: frozenset[int] = frozenset()
    ends: frozenset[int] = frozenset()


def marks_of(case: Case, finding: Finding | None) -> Marks:
    """Return the marks of a finding; none if it names no element."""
    if finding is None or finding.index < 0:
        return Marks()
    positions: dict[int, set[int]] = {}
    padding, ends = set(), set()
    for index in finding.wrong or (finding.index,):
        place = _placing(finding).place(case, index, _seen(finding))
        if place.padding is not None:
            padding.add(place.padding)
        if place.request is not None and place.position is not None:
            positions.setdefault(place.request, set()).add(place.position)
        if place.request is not None and place.ends:
            ends.add(place.request)
    frozen = {b: frozenset(of_request) for b, of_request in positions.items()}
    return Marks(frozen, frozenset(padding), frozenset(ends))


def place_of(case: Case, finding: Finding) -> Place:
    """Return the place of the first wrong element of a finding; an empty place if it names none.

    >>> from cumae.oracle import Batch, Request
    >>> case = Case(Batch((Request(3, 2, (7, 4)), Request(0, 1, (2,))), 4))
    >>> found = place_of(case, Finding("agrees", "", "", index=2, axis="token"))
    >>> found.request, found.token
    (1, 2)
    """
    return _placing(finding).place(case, finding.index, _seen(finding)) if finding.index >= 0 else Place()


def place_text(case: Case, finding: Finding) -> str:
    """Return the request, position and block of the first wrong element, "" if it has none."""
    return _placing(finding).text(case, finding.index, _seen(finding)) if finding.index >= 0 else ""


def _placing(finding: Finding) -> Placing:
    return axis_named(finding.axis).placing


def _seen(finding: Finding) -> Seen:
    return Seen(finding.rows, finding.raised_by)


def shared_blocks(case: Case) -> frozenset[int]:
    """Return the blocks that hold live tokens of several requests.

    >>> from cumae.oracle import Batch, Request
    >>> sorted(shared_blocks(Case(Batch((Request(4, 1, (7, 1)), Request(4, 1, (7, 2))), 4))))
    [7]
    """
    batch = case.batch
    live = [set(request.block_ids[: batch.num_live_blocks(request)]) - {-1} for request in batch.requests]
    seen: set[int] = set()
    shared: set[int] = set()
    for blocks in live:
        shared |= blocks & seen
        seen |= blocks
    return frozenset(shared)

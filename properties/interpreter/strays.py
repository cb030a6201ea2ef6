"""Accesses outside every tensor, and reads of memory that nobody has written."""

from dataclasses import dataclass

NEAR = 2**20
"""In elements: an access farther from every tensor than this, and than the nearest is large, is of none."""


@dataclass(frozen=True, slots=True)
class Access:
    """One access outside every tensor of the launch: its tensor or the nearest one, and the element beyond.

    ``address``: of a pointer that was not computed from that tensor; else 0. ``is_known``: whether it was
    computed from that tensor.
    """

    kind: str
    tensor: str
    element: int
    num_elements: int
    line: str
    address: int = 0
    is_known: bool = False

    def __str__(self) -> str:
        if self.address:
            where = f"address {self.address:#x}, which lies in no tensor of the call"
            return f"{self.kind} at {where}, at {self.line}"
        near = max(NEAR, self.num_elements)
        if not self.is_known and not -near <= self.element < self.num_elements + near:
            return f"{self.kind} far from every tensor, at {self.line}"
        return (
            f"{self.kind} of element {self.element} of `{self.tensor}`, "
            f"which has {self.num_elements}, at {self.line}"
        )


@dataclass(frozen=True, slots=True)
class Garbage:
    """An element of an output, or of an uninitialised tensor, read before it was written."""

    tensor: str
    index: int
    line: str

    def __str__(self) -> str:
        return f"`{self.tensor}[{self.index}]` is read before anything was written there, at {self.line}"

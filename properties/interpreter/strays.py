"""Accesses outside every tensor, and reads of memory that nobody has written."""

from dataclasses import dataclass

FAR = 2**40
"""In elements: an access farther than this from every tensor was computed from none, or from an empty one."""


@dataclass(frozen=True, slots=True)
class Access:
    """One access outside every tensor of the launch: the nearest tensor and the element beyond it.

    ``address``: of a pointer that was not computed from that tensor; else 0.
    """

    kind: str
    tensor: str
    element: int
    num_elements: int
    line: str
    address: int = 0

    def __str__(self) -> str:
        if self.address:
            where = f"address {self.address:#x}, which lies in no tensor of the call"
            return f"{self.kind} at {where}, at {self.line}"
        if not -FAR < self.element < FAR:
            return f"{self.kind} far from every tensor, as of an empty one, at {self.line}"
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

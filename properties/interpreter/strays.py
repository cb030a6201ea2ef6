"""Accesses outside every tensor or at odd addresses, and reads of memory that nobody has written."""

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
class Unaligned:
    """An access of one thread at an address that its size does not divide: a GPU does not make it.

    ``count``: elements that the thread accesses at once, as the kernel claims at ``claimed`` that it can.
    """

    kind: str
    size: int
    line: str
    count: int = 1
    claimed: str = ""

    def __str__(self) -> str:
        if not self.claimed:
            odd = f"an address that {self.size} does not divide"
            return f"{self.kind} of {self.size} bytes at {odd}, at {self.line}"
        return (
            f"{self.kind} of {self.count} elements at once where they do not lie in a row from a multiple of "
            f"{self.size} bytes, as `tl.multiple_of` at {self.claimed} claims, at {self.line}"
        )


@dataclass(frozen=True, slots=True)
class Garbage:
    """An element of an output, or of an uninitialised tensor, read before it was written."""

    tensor: str
    index: int
    line: str

    def __str__(self) -> str:
        return f"`{self.tensor}[{self.index}]` is read before anything was written there, at {self.line}"

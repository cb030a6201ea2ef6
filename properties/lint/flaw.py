"""The rules for kernels, and places that break them."""

import linecache
from dataclasses import dataclass

COMPILES, WIDE, DEFINED, BOUNDED = "compiles", "64-bit addresses", "defined loads", "bounded compiles"
RULES = {
    COMPILES: "it compiles on every target that supports its types",
    WIDE: "no product in 32 bits that can pass 2^31 reaches an address, or is stored as 64 bits",
    DEFINED: "no masked load without `other` reaches a sum, a branch, or an access outside its mask",
    BOUNDED: "the number of compiles does not grow with the numbers of requests and tokens",
}


@dataclass(frozen=True, slots=True, order=True)
class Flaw:
    """A place in the source where a kernel breaks a rule, and how."""

    file: str
    line: int
    rule: str
    kernel: str
    text: str

    @property
    def source(self) -> str:
        """The source line."""
        return linecache.getline(self.file, self.line).strip()

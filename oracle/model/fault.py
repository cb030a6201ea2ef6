"""A fault that a judge finds in outputs for which several answers are right."""


class Fault(str):
    """A sentence about an output; ``row``: the token it is about, -1 where it is about none.

    >>> fault = Fault("row 2: expert 8 does not exist", row=2)
    >>> fault.row, fault
    (2, 'row 2: expert 8 does not exist')
    """

    __slots__ = ("row",)
    row: int

    def __new__(cls, text: str, row: int = -1) -> "Fault":
        """Return the sentence with its row."""
        fault = super().__new__(cls, text)
        fault.row = row
        return fault

"""Numbers with their nouns."""


def counted(number: int, noun: str) -> str:
    """Return the number and the noun, which ends in an s unless there is one.

    >>> counted(1, "case"), counted(2312, "case"), counted(0, "kernel")
    ('1 case', '2312 cases', '0 kernels')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"

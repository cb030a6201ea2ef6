"""How far a search went, in words: the largest sizes, and the pairs of option values."""

from collections.abc import Iterable, Mapping, Sequence


def largest_among(several: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the largest of each size over several searches."""
    found: dict[str, int] = {}
    for largest in several:
        for name, size in largest.items():
            found[name] = max(size, found.get(name, 0))
    return found


def largest_line(largest: Mapping[str, int]) -> str:
    """Return the largest sizes that were compared, as one line.

    >>> largest_line({"tokens in a request": 4097, "requests": 1025, "padded tokens": 0})
    'largest: 4,097 tokens in a request, 1,025 requests'
    """
    told = (f"{size:,} {name if size > 1 else _singular(name)}" for name, size in largest.items() if size)
    return "largest: " + ", ".join(told)


def _singular(name: str) -> str:
    return name.replace("tokens", "token").replace("requests", "request")


def pairs_line(seen: int, total: int, refused: int) -> str:
    """Return how many pairs of option values were seen, empty if the function has no two options.

    >>> pairs_line(205, 277, 64)
    'pairs of option values: 205 of 213 tried (96 %)'
    """
    possible = total - refused
    if not possible:
        return ""
    return f"pairs of option values: {seen:,} of {possible:,} tried ({100 * seen // possible} %)"


def without_forms(forms: Sequence[tuple[str, str]]) -> str:
    """Return which orders and formats of pages no case had, as one line.

    >>> without_forms([("HND", "fp8"), ("joined", "bf16"), ("joined", "fp8")])
    'no case had pages in these orders and formats: HND fp8, joined bf16, joined fp8'
    """
    return "no case had pages in these orders and formats: " + ", ".join(f"{a} {b}" for a, b in forms)

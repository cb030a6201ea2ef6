"""The positions of a request that a context-parallel rank holds."""


def owns(position: int, world: int, rank: int, interleave: int) -> bool:
    """Return whether ``rank`` holds ``position``; ``world`` ranks take turns, ``interleave`` positions each.

    Source: vLLM's decode context parallelism (``dcp_world_size``, ``cp_kv_cache_interleave_size``).

    >>> [owns(p, world=2, rank=1, interleave=2) for p in range(6)]
    [False, False, True, True, False, False]
    """
    return (position // interleave) % world == rank


def local_len(length: int, world: int, rank: int, interleave: int) -> int:
    """Return how many of the positions ``0 … length-1`` the rank holds.

    Count the first positions of the rank's runs, then the second positions, and so on.

    >>> [local_len(bound, world=2, rank=1, interleave=1) for bound in (8, 9, 10)]
    [4, 4, 5]
    """
    if world == 1:
        return length
    first, step = rank * interleave, world * interleave
    return sum(len(range(first + place, length, step)) for place in range(min(interleave, length)))

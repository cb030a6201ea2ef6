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

    The rank's runs have ``interleave`` positions each, but for the last one that begins before ``length``.

    >>> [local_len(bound, world=2, rank=1, interleave=1) for bound in (8, 9, 10)]
    [4, 4, 5]
    >>> [local_len(bound, world=2, rank=0, interleave=4) for bound in (0, 3, 4, 8, 9)]
    [0, 3, 4, 4, 5]
    """
    if world == 1:
        return length
    runs = range(rank * interleave, length, world * interleave)
    if not runs:
        return 0
    return (len(runs) - 1) * interleave + min(interleave, length - runs[-1])

"""Validation of launcher arguments: a bad one raises `ValueError("name = value, must be rule")`."""

from collections.abc import Sequence

import torch

INDEX_DTYPES = (torch.int32, torch.int64)
MAX_INT32 = 2**31 - 1


def check_int(name: str, value: object, minimum: int, maximum: int = MAX_INT32) -> None:
    """Raise ValueError unless `value` is an int in [minimum, maximum]; a bool is not an int."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{name} = {value!r}, must be an int")
    if value < minimum:
        raise ValueError(f"{name} = {value}, must be >= {minimum}")
    if value > maximum:
        raise ValueError(f"{name} = {value}, must be <= {maximum}")


def check_choice(name: str, value: object, choices: Sequence[object]) -> None:
    """Raise ValueError unless `value` equals one of `choices` and is of the same type."""
    if not any(type(value) is type(choice) and value == choice for choice in choices):
        raise ValueError(f"{name} = {value!r}, must be {' or '.join(map(repr, choices))}")


def check_tensor(
    name: str,
    value: object,
    dtypes: Sequence[torch.dtype],
    shape: Sequence[int | None],
    device: torch.device | None = None,
    contiguous: bool = True,
) -> None:
    """Raise ValueError unless `value` is a tensor of these dtypes, shape and device (None: any)."""
    if not isinstance(value, torch.Tensor):
        raise ValueError(f"{name} = {value!r}, must be a tensor")
    if value.dtype not in dtypes:
        raise ValueError(f"{name}.dtype = {value.dtype}, must be {' or '.join(map(str, dtypes))}")
    if device is not None and value.device != device:
        raise ValueError(f"{name}.device = {value.device}, must be {device}, the device of the other tensors")
    sizes = value.shape
    if sizes != shape and not _fits(sizes, shape):
        must = ", ".join("any" if size is None else str(size) for size in shape)
        raise ValueError(f"{name}.shape = {tuple(sizes)}, must be ({must}{',' * (len(shape) == 1)})")
    if contiguous and not value.is_contiguous():
        raise ValueError(f"{name}.stride() = {value.stride()} with shape {tuple(sizes)}, must be contiguous")


def _fits(sizes: Sequence[int], shape: Sequence[int | None]) -> bool:
    if len(sizes) != len(shape):
        return False
    if shape == (None,):  # a fast path: most vectors may have any length
        return True
    for size, wanted in zip(sizes, shape, strict=True):
        if wanted is not None and size != wanted:
            return False
    return True


def check_indices(name: str, value: object, length: int | None, device: torch.device | None = None) -> None:
    """Raise ValueError unless `value` is a contiguous int32 or int64 tensor [length] (None: any)."""
    check_tensor(name, value, INDEX_DTYPES, (length,), device)


def check_shard(world: int, rank: int, interleave: int) -> None:
    """Raise ValueError unless the three name a rank of a context-parallel group whose stripe fits int32."""
    check_int("world", world, 1)
    check_int("rank", rank, 0)
    check_int("interleave", interleave, 1)
    if rank >= world:
        raise ValueError(f"rank = {rank}, must be < world = {world}")
    check_int("world * interleave", world * interleave, 1)

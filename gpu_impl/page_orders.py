"""Where a page of each order holds the keys and values of its tokens, by the format of their heads."""

import math
from typing import NamedTuple

import torch

from cumae.gpu_impl.arguments import check_choice, check_int, check_tensor

COPIED = {
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp32": torch.float32,
    "bytes": torch.uint8,
}
WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32}
SCALED = ("fp8", "fp8_own", "int8_own")
ORDERS = ("NHD", "HND", "joined", "packed", "shuffled")
GROUP_BYTES, SCALE_BYTES = 16, 4


class Plane(NamedTuple):
    """Where a page holds the keys, or the values: elements from its start.

    Element i of a head of token t is at `base + head * i_head + token * (t // tokens) + t % tokens +
    dim * (i // dims) + i % dims`.
    """

    base: int
    head: int
    token: int
    dim: int
    tokens: int = 1
    dims: int = 1


def planes_of(
    page_order: str, head_format: str, size: int, num_heads: int, head_dim: int, value_dim: int
) -> tuple[Plane, Plane]:
    """Return where the keys and the values of a page lie; one of a scale of its own has 4 bytes more."""
    more = scale_bytes(head_format)
    key, value = head_dim + more, value_dim + more
    behind = size * num_heads * key
    if page_order == "NHD":
        return Plane(0, key, num_heads * key, 1), Plane(behind, value, num_heads * value, 1)
    if page_order == "HND":
        return Plane(0, size * key, key, 1), Plane(behind, size * value, value, 1)
    if page_order == "joined":
        both = key + value
        return Plane(0, both, num_heads * both, 1), Plane(key, both, num_heads * both, 1)
    x = _group(head_format)
    keys = Plane(0, size * key, x, size * x, dims=x)
    if page_order == "packed":
        return keys, Plane(behind, size * value, 1, size)
    return keys, Plane(behind, size * value, x * value, x, tokens=x)


def scale_bytes(head_format: str) -> int:
    """Return the bytes of scale that follow the numbers of a head."""
    return SCALE_BYTES if head_format.endswith("_own") else 0


def _group(head_format: str) -> int:
    """Return the numbers of 16 bytes in the cache."""
    return GROUP_BYTES // COPIED.get(head_format, torch.uint8).itemsize


def check_options(block_size: int, page_order: str, head_format: str) -> None:
    """Raise ValueError unless the three are a size, an order and a format."""
    check_int("block_size", block_size, 1)
    check_choice("page_order", page_order, ORDERS)
    check_choice("head_format", head_format, (*COPIED, *SCALED))


def check_dims(block_size: int, page_order: str, head_format: str, head_dim: int, value_dim: int) -> None:
    """Raise ValueError unless pages of this order can hold heads of these numbers in this format."""
    has_scales = scale_bytes(head_format) > 0
    divisor = 4 if has_scales else _group(head_format) if page_order in ("packed", "shuffled") else 1
    for name, dim in (("head_dim", head_dim), ("value_dim", value_dim)):
        least = 1 if has_scales else 0
        check_int(name, dim, least)
        if dim % divisor and (name == "head_dim" or has_scales):
            raise ValueError(
                f"{name} = {dim}, must be a multiple of {divisor} for {head_format} {page_order}"
            )
    if has_scales and page_order in ("packed", "shuffled"):
        raise ValueError(f"page_order = {page_order!r}, must be NHD or HND or joined for {head_format}")
    if page_order == "shuffled" and block_size % divisor:
        raise ValueError(f"block_size = {block_size}, must be a multiple of {divisor} for shuffled pages")


def check_pages(
    pages: torch.Tensor,
    block_size: int,
    num_heads: int,
    head_format: str,
    head_dim: int,
    value_dim: int,
    device: torch.device,
) -> int:
    """Return the elements of a page. Raise ValueError unless they stand together, in the format's dtype."""
    held = COPIED.get(head_format, torch.uint8)
    page = block_size * num_heads * (head_dim + value_dim + 2 * scale_bytes(head_format))
    num_axes = max(pages.dim(), 2) if isinstance(pages, torch.Tensor) else 2
    check_tensor("pages", pages, (held,), (None,) * num_axes, device, contiguous=False)
    if pages[:1].numel() != page and pages.shape[0]:
        raise ValueError(f"pages.shape = {tuple(pages.shape)}, must have pages of {page} elements")
    check_rows_contiguous("pages", pages)
    return page


def check_rows_contiguous(name: str, rows: torch.Tensor) -> None:
    """Raise ValueError unless only the stride of the first dimension differs from a new tensor's."""
    if rows.shape[0] and not rows[:1].is_contiguous():
        rule = "must be contiguous but for the first dimension"
        raise ValueError(f"{name}.stride() = {rows.stride()} with shape {tuple(rows.shape)}, {rule}")


def check_rows(
    name: str,
    rows: torch.Tensor,
    capacity: int | None,
    num_heads: int,
    head_format: str,
    device: torch.device,
) -> int:
    """Return the numbers of a head. Raise ValueError for rows to read into of a wrong dtype or shape."""
    dtype = torch.bfloat16 if head_format == "fp8" else COPIED.get(head_format, torch.uint8)
    num_inner = max(rows.dim(), 2) - 1 if isinstance(rows, torch.Tensor) else 1
    check_tensor(name, rows, (dtype,), (capacity, *(None,) * num_inner), device)
    width = math.prod(rows.shape[1:])
    if width % num_heads:
        rule = f"must have rows of num_heads = {num_heads} heads"
        raise ValueError(f"{name}.shape = {tuple(rows.shape)}, {rule}")
    return width // num_heads - scale_bytes(head_format)

"""Keys and values of several heads, and the order in which the pages of a cache hold them."""

from dataclasses import dataclass
from math import gcd
from typing import Literal

from cumae.oracle.fp8_row import nearest_fp32
from cumae.oracle.model.rules import require, require_bool, require_choice, require_int

PageOrder = Literal["NHD", "HND", "joined", "packed", "shuffled"]
PAGE_ORDERS: tuple[PageOrder, ...] = ("NHD", "HND", "joined", "packed", "shuffled")
HeadFormat = Literal["bf16", "fp16", "fp32", "bytes", "fp8", "fp8_own", "int8_own"]
HEAD_FORMATS: tuple[HeadFormat, ...] = ("bf16", "fp16", "fp32", "bytes", "fp8", "fp8_own", "int8_own")
GROUP_BYTES = 16
SCALE_BYTES = 4
_ITEM_BYTES = {"bf16": 2, "fp16": 2, "fp32": 4}


@dataclass(frozen=True, slots=True)
class Heads:
    """Keys and values of several heads in a paged cache.

    ``num_heads``: heads of keys and values. ``head_dim``, ``value_dim``: numbers of a key and of a value.
    ``head_format``: how the cache holds a key or a value. Numbers of ``bf16``, ``fp16`` and ``fp32``, and
    ``bytes``, are copied. From bf16, ``fp8`` is a byte for each number, divided by a scale;
    ``fp8_own`` and ``int8_own`` have a scale for each token and head, 4 bytes behind its numbers.
    ``key_scale_thousandths``, ``value_scale_thousandths``: the scale of all keys or values of ``fp8``, times
    1000. ``page_order``: what runs fastest in a page, see ``page_write``; groups have 16 bytes.
    ``odd_heads``: whether some keys and values, new or read, are 0, -0.0 or NaN alone, or as those before.
    """

    num_heads: int = 1
    head_dim: int = 16
    value_dim: int = 16
    page_order: PageOrder = "NHD"
    head_format: HeadFormat = "bf16"
    key_scale_thousandths: int = 1000
    value_scale_thousandths: int = 1000
    odd_heads: bool = False

    def __post_init__(self) -> None:
        require_int("num_heads", self.num_heads, 1, 2**12)
        require_int("head_dim", self.head_dim, 1, 2**14)
        require_int("value_dim", self.value_dim, 1, 2**14)
        require_choice("page_order", self.page_order, PAGE_ORDERS)
        require_choice("head_format", self.head_format, HEAD_FORMATS)
        require_int("key_scale_thousandths", self.key_scale_thousandths, 1, 10**6)
        require_int("value_scale_thousandths", self.value_scale_thousandths, 1, 10**6)
        require_bool("odd_heads", self.odd_heads)
        if self.has_own_scales:
            rule = f"be 'NHD', 'HND' or 'joined' for {self.head_format}"
            require(not self.is_grouped, "page_order", self.page_order, rule)
            for name, dim in (("head_dim", self.head_dim), ("value_dim", self.value_dim)):
                require(dim % 4 == 0, name, dim, f"be a multiple of 4 for {self.head_format}")
        group = self.group_items
        fits = not self.is_grouped or self.head_dim % group == 0
        require(fits, "head_dim", self.head_dim, f"be a multiple of {group} for {self.page_order} pages")

    @property
    def has_own_scales(self) -> bool:
        """Whether each token and head has a scale of its own."""
        return self.head_format in ("fp8_own", "int8_own")

    @property
    def key_scale(self) -> float:
        """The fp32 scale of all keys of fp8."""
        return nearest_fp32(self.key_scale_thousandths / 1000)

    @property
    def value_scale(self) -> float:
        """The fp32 scale of all values of fp8."""
        return nearest_fp32(self.value_scale_thousandths / 1000)

    @property
    def is_scaled(self) -> bool:
        """Whether numbers are divided by a scale before they are stored."""
        return self.head_format in ("fp8", "fp8_own", "int8_own")

    @property
    def is_grouped(self) -> bool:
        """Whether pages divide keys into groups of 16 bytes."""
        return self.page_order in ("packed", "shuffled")

    @property
    def item_bytes(self) -> int:
        """Bytes of a number in the cache."""
        return _ITEM_BYTES.get(self.head_format, 1)

    @property
    def group_items(self) -> int:
        """Numbers of a group."""
        return GROUP_BYTES // self.item_bytes

    def fits_blocks_of(self, block_size: int) -> bool:
        """Return whether blocks of so many tokens can have this order: shuffled ones hold whole groups."""
        return self.page_order != "shuffled" or block_size % self.group_items == 0

    def stored_bytes(self, dim: int) -> int:
        """Return the bytes of a key or value of ``dim`` numbers in the cache."""
        return dim * self.item_bytes + (SCALE_BYTES if self.has_own_scales else 0)

    @property
    def unit_bytes(self) -> int:
        """Bytes of the longest runs that are never divided: a number, if pages have groups."""
        if self.is_grouped:
            return self.item_bytes
        return gcd(self.stored_bytes(self.head_dim), self.stored_bytes(self.value_dim))

    @property
    def key_units(self) -> int:
        """Units of a key."""
        return self.stored_bytes(self.head_dim) // self.unit_bytes

    @property
    def value_units(self) -> int:
        """Units of a value."""
        return self.stored_bytes(self.value_dim) // self.unit_bytes

    @property
    def token_units(self) -> int:
        """Units of a token: the keys and values of its heads."""
        return self.num_heads * (self.key_units + self.value_units)

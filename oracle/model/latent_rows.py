"""The latent rows of a cache: their numbers, and the format that holds them."""

from dataclasses import dataclass
from typing import Literal

from cumae.oracle.model.rules import require, require_bool, require_choice, require_int

RowFormat = Literal["bf16", "fp16", "fp32", "fp8"]
ROW_FORMATS: tuple[RowFormat, ...] = ("bf16", "fp16", "fp32", "fp8")
FP8_ROW_BYTES = 656
_ITEM_BYTES = {"bf16": 2, "fp16": 2, "fp32": 4}


@dataclass(frozen=True, slots=True)
class LatentRows:
    """The latent rows of a cache: ``kv_lora_rank`` + ``qk_rope_head_dim`` numbers each.

    ``row_format``: how the cache holds a number. Rows of ``fp8`` are 656 bytes whatever the dimensions: 512
    fp8, 4 fp32 scales, 64 bf16. ``power_of_two_scales``: whether rows of fp8 are written with scales that are
    powers of two. ``odd_rows``: whether some new rows are zeros, -0.0 or NaN alone, or as the one before.
    """

    row_format: RowFormat = "bf16"
    kv_lora_rank: int = 512
    qk_rope_head_dim: int = 64
    power_of_two_scales: bool = False
    odd_rows: bool = False

    def __post_init__(self) -> None:
        require_choice("row_format", self.row_format, ROW_FORMATS)
        require_int("kv_lora_rank", self.kv_lora_rank, 1, 2**16)
        require_int("qk_rope_head_dim", self.qk_rope_head_dim, 0, 2**16)
        require_bool("power_of_two_scales", self.power_of_two_scales)
        require_bool("odd_rows", self.odd_rows)
        scaled = self.row_format == "fp8" or not self.power_of_two_scales
        require(scaled, "power_of_two_scales", True, f"be false for {self.row_format} rows")

    @property
    def row_bytes(self) -> int:
        """Bytes of one latent row."""
        if self.row_format == "fp8":
            return FP8_ROW_BYTES
        return (self.kv_lora_rank + self.qk_rope_head_dim) * _ITEM_BYTES[self.row_format]

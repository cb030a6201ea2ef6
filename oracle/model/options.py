"""The numbers an operation takes beyond the batch; every default is the neutral value."""

from dataclasses import dataclass
from typing import Literal

from cumae.oracle.grouped_topk import check_router_shape
from cumae.oracle.model.rules import require, require_bool, require_choice, require_int
from cumae.oracle.router_logits import FLOAT_DTYPES, LOGITS_KINDS, FloatDtype, LogitsKind

KeyScope = Literal["all", "prefill"]
RowFormat = Literal["bf16", "fp16", "fp32", "fp8"]
ROW_FORMATS: tuple[RowFormat, ...] = ("bf16", "fp16", "fp32", "fp8")
FP8_ROW_BYTES = 656
_ITEM_BYTES = {"bf16": 2, "fp16": 2, "fp32": 4}


@dataclass(frozen=True, slots=True)
class Options:
    """Options of all operations.

    ``rank``, ``interleave``: context parallelism over ``Batch.world`` ranks; a rank owns runs of
    ``interleave`` positions. ``kernel_block_size``: tokens a block of the kernel's table holds;
    ``None`` is the manager's block size. ``compress_ratio``: tokens behind one row of the key
    buffer. ``window``: keys a token sees, its own included; 0 is no limit. ``key_scope``: whose
    keys the key buffer holds. ``token_padding``: what padding rows of the token map hold.
    ``dummy_request``: the last padded request takes the padding tokens. ``row_format``,
    ``kv_lora_rank``, ``qk_rope_head_dim``: the latent rows of a cache (``fp8`` rows are 656
    bytes: 512 fp8, 4 fp32 scales, 64 bf16); ``power_of_two_scales``: what such rows are written with.
    ``topk``: most keys a token attends to in sparse attention; ``split_size``: of these, keys in one work
    item; ``num_workers``: over which the items are dealt out. ``chunk_blocks``: blocks of each request that a
    workspace of cached context has room for; ``workspace_slack``: rows that it has beyond.
    ``prefill_workspace``: the keys of prefills that compute something are gathered into a workspace, from
    which their tokens read selected positions.

    Of the router, ``num_experts`` in ``num_groups``, of which ``topk_group`` are kept and ``top_k`` experts
    selected; ``scaling_thousandths`` of the weights, which sum to 1 before if ``renormalize``;
    ``logits_dtype``, ``bias_dtype``: what they are stored as; ``logits_kind``, ``logits_seed``: which.
    """

    rank: int = 0
    interleave: int = 1
    kernel_block_size: int | None = None
    compress_ratio: int = 1
    window: int = 0
    key_scope: KeyScope = "all"
    token_padding: int = -1
    dummy_request: bool = False
    row_format: RowFormat = "bf16"
    kv_lora_rank: int = 512
    qk_rope_head_dim: int = 64
    power_of_two_scales: bool = False
    topk: int = 2
    split_size: int = 1
    num_workers: int = 1
    chunk_blocks: int = 1
    workspace_slack: int = 0
    prefill_workspace: bool = False
    num_experts: int = 8
    num_groups: int = 2
    topk_group: int = 1
    top_k: int = 2
    scaling_thousandths: int = 1000
    renormalize: bool = True
    logits_dtype: FloatDtype = "fp32"
    bias_dtype: FloatDtype = "fp32"
    logits_kind: LogitsKind = "random"
    logits_seed: int = 0

    def __post_init__(self) -> None:
        require_int("rank", self.rank, 0)
        require_int("interleave", self.interleave, 1)
        if self.kernel_block_size is not None:
            require_int("kernel_block_size", self.kernel_block_size, 1)
        require_int("compress_ratio", self.compress_ratio, 1)
        require_int("window", self.window, 0)
        require_choice("key_scope", self.key_scope, ("all", "prefill"))
        require_choice("token_padding", self.token_padding, (-1, 0))
        require_bool("dummy_request", self.dummy_request)
        require_choice("row_format", self.row_format, ROW_FORMATS)
        require_int("kv_lora_rank", self.kv_lora_rank, 1, 2**16)
        require_int("qk_rope_head_dim", self.qk_rope_head_dim, 0, 2**16)
        require_bool("power_of_two_scales", self.power_of_two_scales)
        scaled = self.row_format == "fp8" or not self.power_of_two_scales
        require(scaled, "power_of_two_scales", True, f"be false for {self.row_format} rows")
        require_int("topk", self.topk, 1, 2**16)
        require_int("split_size", self.split_size, 1, 2**16)
        require_int("num_workers", self.num_workers, 1, 2**16)
        require_int("chunk_blocks", self.chunk_blocks, 1, 2**16)
        require_int("workspace_slack", self.workspace_slack, 0, 2**20)
        require_bool("prefill_workspace", self.prefill_workspace)
        require_int("num_experts", self.num_experts, 2, 2**16)
        check_router_shape(self.num_experts, self.num_groups, self.topk_group, self.top_k)
        require_int("scaling_thousandths", self.scaling_thousandths, 1, 10**6)
        require_bool("renormalize", self.renormalize)
        require_choice("logits_dtype", self.logits_dtype, FLOAT_DTYPES)
        require_choice("bias_dtype", self.bias_dtype, FLOAT_DTYPES)
        require_choice("logits_kind", self.logits_kind, LOGITS_KINDS)
        require_int("logits_seed", self.logits_seed, 0)
        both = self.compress_ratio > 1 and self.window > 0
        require(not both, "window", self.window, "be 0 when compress_ratio > 1")

    @property
    def row_bytes(self) -> int:
        """Bytes of one latent row."""
        if self.row_format == "fp8":
            return FP8_ROW_BYTES
        return (self.kv_lora_rank + self.qk_rope_head_dim) * _ITEM_BYTES[self.row_format]

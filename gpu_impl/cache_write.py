"""New rows scattered into the slots of a paged cache, copied or quantised to fp8, as Triton kernels."""

import math

import torch
import triton
import triton.language as tl

from cumae.gpu_impl.arguments import check_choice, check_tensor
from cumae.gpu_impl.e4m3 import e4m3_bytes, has_fp8
from cumae.gpu_impl.early_launch import early, wait_for_kernel_before

PLAIN_DTYPES = (torch.bfloat16, torch.float16, torch.float32)
WORDS_OF_PLAIN = {2: torch.int16, 4: torch.int32}
# A thread copies chunks of 16 bytes, CHUNKS of them a program.
CHUNK_BYTES = 16
CHUNKS = 256
# One program quantises the four tiles of so many rows, with so many warps. Where launches begin early, an
# H200 starts a program every 1.2 ns: 65,536 rows take 40 µs with two rows for each program, and 32 with four.
FEW_ROWS, MANY_ROWS = (8, 4), (4, 2)
MOST_OF_FEW = 8192

LATENT_WIDTH = tl.constexpr(512)
ROPE_WIDTH = tl.constexpr(64)
TILE_WIDTH = tl.constexpr(128)
NUM_TILES = tl.constexpr(4)
FP8_ROW_BYTES = 656

FP8_MAX = tl.constexpr(448.0)
LEAST_SCALE_BITS = tl.constexpr(0x00800000)  # of 2^-126


@triton.jit(do_not_specialize=["num_rows", "num_slots"])
def _scatter_rows(
    new_latents: tl.tensor,
    slot_mapping: tl.tensor,
    cache: tl.tensor,
    num_rows: tl.tensor,
    num_slots: tl.tensor,
    block_size: tl.tensor,
    new_row_stride: tl.tensor,
    cache_block_stride: tl.tensor,
    cache_row_stride: tl.tensor,
    CHUNKS_PER_ROW: tl.constexpr,
    WORDS: tl.constexpr,
    CHUNKS: tl.constexpr,
    BEGINS_EARLY: tl.constexpr,
) -> None:
    wait_for_kernel_before(BEGINS_EARLY)
    # Each program copies CHUNKS chunks of WORDS words: chunk i is in row i // CHUNKS_PER_ROW.
    i_first = tl.program_id(0).to(tl.int64) * CHUNKS
    o_chunk = (i_first % CHUNKS_PER_ROW).to(tl.int32) + tl.arange(0, CHUNKS)
    o_row = i_first // CHUNKS_PER_ROW + o_chunk // CHUNKS_PER_ROW
    o_word = o_chunk % CHUNKS_PER_ROW * WORDS
    m_row = o_row < num_rows
    slot = tl.load(slot_mapping + o_row, mask=m_row, other=-1)
    # Read before the slot is known: a row without a slot is read too, and not written.
    source = new_latents + (o_row * new_row_stride + o_word)[:, None] + tl.arange(0, WORDS)[None, :]
    words = tl.load(source, mask=m_row[:, None], other=0)
    m_row = (slot >= 0) & (slot < num_slots)
    slot = tl.where(m_row, slot, 0)
    target = slot // block_size * cache_block_stride + slot % block_size * cache_row_stride + o_word
    tl.store(cache + target[:, None] + tl.arange(0, WORDS)[None, :], words, mask=m_row[:, None])


@triton.jit
def _quotients(x: tl.tensor, scale: tl.tensor) -> tl.tensor:
    """Return x / scale, to nearest from 2^-12 to 448, for bf16 x and the fp32 scale of its tile.

    Fused multiply-adds correct the product with the reciprocal, by less than the quotient's last bit. A test
    compares all mantissas of x and of the tile's largest x with IEEE division.
    """
    # Numbers near 2^-126 are lifted, so that the remainder is not subnormal. x and the reciprocal are
    # negated, so that -0 stays -0.
    lift = tl.where(scale < 2.0**-40, 2.0**80, 1.0)
    scale = scale * lift
    reciprocal = tl.div_rn(tl.full(scale.shape, -1.0, tl.float32), scale)
    x = x * -lift
    quotient = x * reciprocal
    remainder = tl.fma(quotient, tl.broadcast_to(scale, x.shape), x)
    return tl.fma(remainder, tl.broadcast_to(reciprocal, x.shape), quotient)


@triton.jit(do_not_specialize=["num_rows", "num_slots"])
def _quantise_rows(
    new_latents: tl.tensor,
    slot_mapping: tl.tensor,
    cache: tl.tensor,
    num_rows: tl.tensor,
    num_slots: tl.tensor,
    block_size: tl.tensor,
    new_row_stride: tl.tensor,
    cache_block_stride: tl.tensor,
    cache_row_stride: tl.tensor,
    POWER_OF_TWO_SCALES: tl.constexpr,
    HAS_FP8: tl.constexpr,
    ROWS: tl.constexpr,
    BEGINS_EARLY: tl.constexpr,
) -> None:
    wait_for_kernel_before(BEGINS_EARLY)
    o_item = tl.arange(0, ROWS * NUM_TILES)
    o_row = tl.program_id(0).to(tl.int64) * ROWS + o_item // NUM_TILES
    i_tile = o_item % NUM_TILES
    m_row = o_row < num_rows
    slot = tl.load(slot_mapping + o_row, mask=m_row, other=-1)
    # Read before the slot is known, as above.
    source = new_latents + o_row * new_row_stride
    o_column = i_tile[:, None] * TILE_WIDTH + tl.arange(0, TILE_WIDTH)[None, :]
    x_bits = tl.load(source[:, None] + o_column, mask=m_row[:, None], other=0)
    o_rope = i_tile[:, None] * (ROPE_WIDTH // NUM_TILES) + tl.arange(0, ROPE_WIDTH // NUM_TILES)[None, :]
    rope = tl.load(source[:, None] + LATENT_WIDTH + o_rope, mask=m_row[:, None], other=0)
    m_item = (slot >= 0) & (slot < num_slots)
    slot = tl.where(m_item, slot, 0)
    target = cache + slot // block_size * cache_block_stride + slot % block_size * cache_row_stride

    # A bf16 number is the upper half of an fp32 number; magnitudes have the order of their bits.
    m_column = tl.broadcast_to(m_item[:, None], (ROWS * NUM_TILES, TILE_WIDTH))
    x_bits = x_bits.to(tl.int32) << 16
    amax = tl.max(x_bits & 0x7FFFFFFF, axis=1).to(tl.float32, bitcast=True)

    # Flushing subnormals changes amax / 448 only below 2^-126, where the scale is not amax / 448.
    scale_bits = tl.div_rn(amax, tl.full(amax.shape, FP8_MAX, tl.float32)).to(tl.int32, bitcast=True)
    if POWER_OF_TWO_SCALES:
        # 2^-13 is the power of two above 1e-4; a mantissa that is not 0 carries into the exponent.
        scale_bits = tl.maximum((scale_bits + 0x7FFFFF) & 0x7F800000, 0x39000000)
    scale_bits = tl.maximum(scale_bits, LEAST_SCALE_BITS)
    scale = scale_bits.to(tl.float32, bitcast=True)[:, None]

    x = x_bits.to(tl.float32, bitcast=True)
    if HAS_FP8:
        byte = _quotients(x, scale).to(tl.float8e4nv).to(tl.uint8, bitcast=True)
    else:
        # Subnormal x matter: 2^-127 / 2^-126 is 0.5. Triton emits div.rn.f32 without .ftz for NVIDIA, and
        # IEEE denormals for AMD; a flushed quotient below 2^-126 is far below the 2^-10 that fp8 rounds to 0.
        quotient = tl.div_rn(x, tl.broadcast_to(scale, x.shape))
        byte = e4m3_bytes(quotient.to(tl.int32, bitcast=True))
    tl.store(target[:, None] + o_column, byte, mask=m_column)

    scales = (target + LATENT_WIDTH).to(tl.pointer_type(tl.int32), bitcast=True)
    tl.store(scales + i_tile, scale_bits, mask=m_item)

    ropes = (target + LATENT_WIDTH + 4 * NUM_TILES).to(tl.pointer_type(tl.int16), bitcast=True)
    m_rope = tl.broadcast_to(m_item[:, None], o_rope.shape)
    tl.store(ropes[:, None] + o_rope, rope, mask=m_rope)


def write_cache(
    new_latents: torch.Tensor,
    slot_mapping: torch.Tensor,
    cache: torch.Tensor,
    power_of_two_scales: bool,
) -> None:
    """Write new_latents[i] into slot slot_mapping[i] of cache, for i < min(T, N), and change no other bit.

    new_latents [T, width], any stride between rows; slot_mapping [N] int64, contiguous, slots distinct where
    not negative; cache [num_blocks, block_size, row], rows contiguous and not overlapping, any other strides;
    slot s is row s % block_size of block s // block_size. A slot that is negative (-1 means none) or past the
    cache writes nothing.
    A cache of bfloat16, float16 or float32 has the width and dtype of new_latents, whose bits are copied.
    A uint8 cache has rows of 656 bytes for new_latents [T, 576] bfloat16, on addresses and strides that are
    multiples of 4 bytes. In each of four tiles of 128 values, in fp32: scale = max(amax / 448, 2^-126), or
    with power_of_two_scales 2^ceil(log2(max(amax / 448, 1e-4))); byte j is clamp(x[j] / scale, -448, 448) as
    e4m3fn, to nearest even. The scale of tile t lies little-endian at byte 512 + 4t; the last 64 values are
    copied bit for bit from byte 528 on. The 512 values that are scaled must be finite; nothing checks that.
    Raises ValueError for a wrong dtype, device, shape, stride or option, before anything is written. Does not
    synchronise or allocate, so a CUDA graph can capture it.
    Rule: vLLM concat_and_cache_mla and its fp8_ds_mla rows.

    >>> cache = torch.zeros(2, 2, 3)
    >>> new_latents = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]])
    >>> write_cache(new_latents, torch.tensor([3, -1, 0]), cache, False)
    >>> cache.tolist()
    [[[7.0, 8.0, 9.0], [0.0, 0.0, 0.0]], [[0.0, 0.0, 0.0], [1.0, 2.0, 3.0]]]
    """
    _check_inputs(new_latents, slot_mapping, cache, power_of_two_scales)
    num_blocks, block_size, _ = cache.shape
    width = new_latents.shape[1]
    num_rows, num_slots = min(new_latents.shape[0], slot_mapping.numel()), num_blocks * block_size
    if num_rows == 0 or num_slots == 0 or width == 0:
        return
    block_stride, row_stride = cache.stride()[:2]
    if block_stride == block_size * row_stride:
        # As blocks of one row, slots take no division.
        block_size, block_stride = 1, row_stride
    with torch.cuda.device(new_latents.get_device()):
        if cache.dtype == torch.uint8:
            rows, num_warps = FEW_ROWS if num_rows <= MOST_OF_FEW else MANY_ROWS
            _quantise_rows[(-(-num_rows // rows),)](
                new_latents.view(torch.int16),
                slot_mapping,
                cache,
                num_rows,
                num_slots,
                block_size,
                new_latents.stride(0),
                block_stride,
                row_stride,
                POWER_OF_TWO_SCALES=power_of_two_scales,
                HAS_FP8=has_fp8(cache.device),
                ROWS=rows,
                num_warps=num_warps,
                **early(new_latents.device),
            )
            return
        word = WORDS_OF_PLAIN[cache.element_size()]
        words = math.gcd(width, CHUNK_BYTES // cache.element_size())
        chunks_per_row = width // words
        num_chunks = num_rows * chunks_per_row
        _scatter_rows[(-(-num_chunks // CHUNKS),)](
            new_latents.view(word),
            slot_mapping,
            cache.view(word),
            num_rows,
            num_slots,
            block_size,
            new_latents.stride(0),
            block_stride,
            row_stride,
            CHUNKS_PER_ROW=chunks_per_row,
            WORDS=words,
            CHUNKS=CHUNKS,
            **early(new_latents.device),
        )


def _check_inputs(
    new_latents: torch.Tensor, slot_mapping: torch.Tensor, cache: torch.Tensor, power_of_two_scales: bool
) -> None:
    check_tensor("cache", cache, (*PLAIN_DTYPES, torch.uint8), (None, None, None), contiguous=False)
    is_fp8 = cache.dtype == torch.uint8
    dtype, width = (torch.bfloat16, 576) if is_fp8 else (cache.dtype, cache.shape[2])
    check_tensor("new_latents", new_latents, (dtype,), (None, width), cache.device, contiguous=False)
    check_tensor("slot_mapping", slot_mapping, (torch.int64,), (None,), cache.device)
    check_choice("power_of_two_scales", power_of_two_scales, (False, True) if is_fp8 else (False,))
    if is_fp8 and cache.shape[2] != FP8_ROW_BYTES:
        raise ValueError(f"cache.shape = {tuple(cache.shape)}, must have rows of {FP8_ROW_BYTES} bytes")
    for name, rows in (("new_latents", new_latents), ("cache", cache)):
        if rows.stride(-1) != 1 and width > 1:
            rule = "must be contiguous in the last dimension"
            raise ValueError(f"{name}.stride() = {rows.stride()} with shape {tuple(rows.shape)}, {rule}")
    shape, strides = tuple(cache.shape), cache.stride()
    extent = shape[2]
    for stride, size in sorted(zip(strides[:2], shape[:2], strict=True)):
        if size > 1 and stride < extent:
            raise ValueError(f"cache.stride() = {strides} with shape {shape}, must not let rows overlap")
        if size > 1 and is_fp8 and stride % 4:
            raise ValueError(f"cache.stride() = {strides}, must be multiples of 4 bytes except the last")
        extent += stride * (size - 1)
    if is_fp8 and cache.data_ptr() % 4:
        raise ValueError(f"cache.data_ptr() = {cache.data_ptr()}, must be a multiple of 4 bytes")

"""Compiles every shipped kernel for every target, without a GPU and outside the interpreter.

Run as a process of its own: a kernel cannot be interpreted and compiled in the same one.
"""

import importlib
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_90": GPUTarget("cuda", 90, 32),
    "sm_100": GPUTarget("cuda", 100, 32),
    "sm_120": GPUTarget("cuda", 120, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
    "gfx950": GPUTarget("hip", "gfx950", 64),
}
WIDE = {"context_lens", "query_lens", "position_ids", "block_table", "row_index", "slot_mapping"}
MASKS = {"is_prefill"}
POINTERS = WIDE | MASKS
POINTERS |= {"cu_seqlens_q", "cu_seqlens_k", "token_to_request", "max_seqlen_q", "max_seqlen_k", "ks", "ke"}
POINTERS |= {"work_indptr", "work_token", "work_start", "work_stop", "num_splits", "sums"}
POINTERS |= {"topk_indices", "live_requests", "kv_indptr", "kv_indices"}
BYTES = {"cache", "new_rows", "keys"}


def kernels() -> list[tuple[Any, dict[str, Any]]]:
    """Return every kernel with the constants it is compiled for."""
    modules = {
        name: importlib.import_module(f"cumae.gpu_impl.{name}")
        for name in (
            "running_sums",
            "sequence_layout",
            "position_ids",
            "slot_mapping",
            "causal_windows",
            "prefix_interleave",
            "key_counts",
            "sparse_schedule",
            "persistent_buffers",
        )
    }
    sums, interleave = modules["running_sums"], modules["prefix_interleave"]
    found = [
        (sums._scan_tiles, {"IS_PREFILL_SCOPE": True, "HAS_DUMMY": True, "IS_ONLY_TILE": only, "TILE": 1024})
        for only in (False, True)
    ]
    found += [
        (sums._carry_over_tile_ends, {"HAS_DUMMY": True, "TILE": 1024, "CHUNK": 1024}),
        (sums._carry_into_tiles, {"TILE": 1024}),
        (modules["sequence_layout"]._map_tokens, {"TILE": 512, "CHUNK": 256}),
        (modules["position_ids"]._write_positions, {"TILE": 512}),
    ]
    for sharded in (False, True):
        flags = {"HAS_ROW_INDEX": True, "IS_SHARDED": sharded, "TILE": 512}
        found.append((modules["slot_mapping"]._write_slots, flags))
        flags = {"HAS_WINDOW": not sharded, "IS_SHARDED": sharded, "TILE": 512}
        found.append((modules["causal_windows"]._write_windows, flags))
    for grain, (word, count) in interleave.WORDS_OF_GRAIN.items():
        flags = {"WORD": word, "WORDS_PER_GRAIN": count, "GRAIN": grain}
        found.append(
            (interleave._copy_rows, flags | {"ROWS": interleave.ROWS, "COLUMNS": interleave.COLUMNS})
        )
    counts, schedule, buffers = (
        modules[name] for name in ("key_counts", "sparse_schedule", "persistent_buffers")
    )
    found += [
        (counts._scan_counts, {"TILE": 1024}),
        (counts._carry_over_scans, {"TILE": 1024, "CHUNK": 1024}),
        (counts._carry_into_scans, {"TILE": 1024}),
        (schedule._write_counts, {"TILE": 1024}),
        (buffers._write_keys, {"ROWS": 1, "COLUMNS": 2048, "FILL": 4096}),
    ]
    for only, rows in ((True, 1024), (False, 8)):
        flags = {"IS_ONLY_TILE": only, "TILE": 1024, "ROWS": rows, "COLUMNS": 1024 // rows, "WORKERS": 1024}
        found.append((schedule._write_items, flags))
    return found


def signature(kernel: Any, constants: dict[str, Any]) -> dict[str, str]:
    """Return the types of a kernel's arguments: pointers by name, strides and numbers of 64 bits."""
    types = {}
    for name in kernel.arg_names:
        if name in constants:
            types[name] = "constexpr"
        elif name in BYTES:
            types[name] = "*u8"
        elif name in MASKS:
            types[name] = "*i1"
        elif name in WIDE:
            types[name] = "*i64"
        elif name in POINTERS:
            types[name] = "*i32"
        else:
            types[name] = "i64" if name.endswith("_stride") else "i32"
    return types


def main() -> None:
    """Compile and print a line for each kernel and target."""
    for kernel, constants in kernels():
        places = {(kernel.arg_names.index(name),): value for name, value in constants.items()}
        source = ASTSource(kernel, signature(kernel, constants), places)
        for name, target in TARGETS.items():
            triton.compile(source, target=target)
            print(f"{kernel.__name__} {name} ok")


if __name__ == "__main__":
    main()

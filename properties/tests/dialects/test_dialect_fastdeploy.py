"""The dialect of FastDeploy, worked by hand."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import cumae.properties.dialects
from cumae.oracle import UNTOUCHED, Batch, Case, Inputs, Layout, Options, Request
from cumae.properties.dialects import FASTDEPLOY, Ints, Rows
from cumae.properties.operations import OPERATIONS
from cumae.properties.operations.expected import expected_of
from cumae.properties.operations.outputs import outputs_of, shape_of

PAGE = Path(cumae.properties.dialects.__file__).parent / "fastdeploy/README.md"
KEPT = UNTOUCHED
STEP = Case(
    Batch(
        (
            Request(3, 2, (5, 2)),
            Request(0, 0),
            Request(6, 1, (7, 3), "decode"),
            Request(0, 3, (9,)),
        ),
        block_size=4,
    ),
    Layout(
        num_padding_tokens=2,
        num_padding_requests=1,
        num_padding_slots=1,
        num_spare_rows=1,
        num_spare_columns=1,
        garbage="huge",
    ),
)
HUGE = 2**31 - 1


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("seq_lens_encoder", [[2], [0], [0], [3], [0]]),
        ("seq_lens_decoder", [[3], [0], [6], [0], [0]]),
        ("seq_lens_this_time", [2, 0, 1, 3, 0]),
        ("cu_seqlens_q", [0, 2, 2, 3, 6, 6]),
        ("cu_seqlens_k", [0, 5, 5, 12, 15, 15]),
        ("cu_seqlens_cached_kv", [0, 3, 3, 9, 9, 9]),
        ("batch_id_per_token", [0, 0, 2, 3, 3, 3, -1, -1]),
        ("positions", [3, 4, 6, 0, 1, 2, HUGE, HUGE]),
        ("position_ids", [3, 4, 6, 0, 1, 2, HUGE, HUGE]),
        (
            "block_tables",
            [[5, 2, -1], [-1, -1, -1], [7, 3, -1], [9, -1, -1], [-1, -1, -1], [-1, -1, -1]],
        ),
    ],
)
def test_a_step_is_held_as_worked_by_hand(name: str, values: list[Any]) -> None:
    held = FASTDEPLOY.inputs[name].hold(Inputs(STEP))
    assert isinstance(held, Ints)
    assert (held.dtype, held.values.tolist()) == ("int32", values)


def test_the_host_numbers_are_those_of_the_step() -> None:
    numbers = {"block_size": 4, "token_num": 6, "real_bsz": 4}
    assert {name: FASTDEPLOY.inputs[name].hold(Inputs(STEP)) for name in numbers} == numbers


@pytest.mark.parametrize(
    ("operation", "name", "dtype", "values"),
    [
        ("sequence_layout", "cu_seqlens_q", "int32", [0, 2, 2, 3, 6, 6]),
        ("sequence_layout", "cu_seqlens_k", "int32", [0, 5, 5, 12, 15, 15]),
        ("sequence_layout", "batch_id_per_token", "int32", [0, 0, 2, 3, 3, 3, -1, -1]),
        ("position_ids", "position_ids", "int32", [3, 4, 6, 0, 1, 2, KEPT, KEPT]),
        ("slot_mapping", "position_ids", "int64", [3, 4, 6, 0, 1, 2, KEPT, KEPT]),
        ("slot_mapping", "slot_mapping", "int64", [23, 8, 14, 36, 37, 38, KEPT, KEPT, KEPT]),
        ("causal_windows", "ks", "int32", [0, 0, 0, 12, 12, 12, 0, 0]),
        ("causal_windows", "ke", "int32", [4, 5, 0, 13, 14, 15, 0, 0]),
    ],
)
def test_outputs_are_as_worked_by_hand(operation: str, name: str, dtype: str, values: list[Any]) -> None:
    inputs = Inputs(STEP)
    output = outputs_of(OPERATIONS[operation], FASTDEPLOY)[name]
    answer = inputs.call(OPERATIONS[operation].oracle)
    assert (output.dtype, shape_of(output, STEP)) == (dtype, (len(values),))
    assert output.values(answer, inputs) == values


def test_latent_rows_are_as_worked_by_hand() -> None:
    """The fused read of FastDeploy#7727: cached rows of each request, then its new ones."""
    dims = replace(STEP, options=Options.of(kv_lora_rank=2, qk_rope_head_dim=1))
    inputs = Inputs(dims)
    held = {
        name: FASTDEPLOY.inputs[name].hold(inputs) for name in ("latent_cache", "compressed_kv", "key_pe")
    }
    cache, new, rope = (rows for rows in held.values() if isinstance(rows, Rows))
    assert (cache.shape, new.shape, rope.shape) == ((10, 1, 4, 3), (6, 2), (6, 1))
    outputs = outputs_of(OPERATIONS["prefix_interleave"], FASTDEPLOY)
    wanted = expected_of(OPERATIONS["prefix_interleave"], outputs.values(), inputs, held.__getitem__)
    cached = [(5, 0), (5, 1), (5, 2), (7, 0), (7, 1), (7, 2), (7, 3), (3, 0), (3, 1)]
    row_of = {(int(b), int(o)): content for (b, _, o), content in zip(cache.live, cache.content, strict=True)}
    by_hand = [row_of[place] for place in cached]
    latents = [*by_hand[:3], 0, 1, *by_hand[3:], 2, 3, 4, 5]
    for name, columns, tokens in (("full_compressed_kv", slice(0, 4), new), ("full_k_pe", slice(4, 6), rope)):
        rows = [tokens.content[row] if isinstance(row, int) else row[columns] for row in latents]
        assert shape_of(outputs[name], dims)[0] == len(rows)
        assert wanted[name].words.tolist() == [row.tolist() for row in rows]
        assert not wanted[name].state.any()


def test_the_example_of_the_page_runs() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    scope: dict[str, Any] = {}
    exec(compile(example, str(PAGE), "exec"), scope)
    assert scope["verdict"].ok

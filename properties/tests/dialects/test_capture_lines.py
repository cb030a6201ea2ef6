"""The lines on each dialect's page, run where an engine's names stand, write a dump that is judged."""

import re
import time
from enum import IntEnum, auto
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from cumae.oracle import Batch, Case, Inputs, Layout, Request
from cumae.properties import dialects
from cumae.properties.dialects import DIALECTS, Ints
from cumae.properties.tests.given.sglang_steps import DECODE, MIXED, VERIFY
from cumae.properties.tests.helpers.command_line import cumae
from cumae.properties.tests.helpers.python_process import Done

STEP = Case(
    Batch((Request(3, 2, (5, 2)), Request(6, 1, (7, 3), "decode"), Request(0, 3, (9,))), 4),
    Layout(num_padding_tokens=2, num_padding_requests=1, garbage="zero"),
)


class ForwardMode(IntEnum):
    """SGLang's enum, as far as these steps need it."""

    EXTEND = auto()
    DECODE = auto()
    MIXED = auto()
    IDLE = auto()
    TARGET_VERIFY = auto()


class PaddleTensor:
    """A tensor of another library: it has a length and ``numpy()``."""

    def __init__(self, values: torch.Tensor) -> None:
        self.values = values

    def __len__(self) -> int:
        return len(self.values)

    def numpy(self) -> Any:
        return self.values.numpy()


def held(dialect: str, name: str, case: Case) -> Any:
    """Return an input as the engine holds it."""
    found = DIALECTS[dialect].inputs[name].hold(Inputs(case))
    if isinstance(found, Ints):
        return torch.from_numpy(found.values).to(getattr(torch, found.dtype))
    return found


def lines_of(engine: str) -> str:
    """Return the lines that capture a step, from the page."""
    page = (Path(dialects.__file__).parent / engine / "README.md").read_text()
    (code,) = re.findall(r"## Capture a step\n.*?```py\n(.*?)```", page, re.S)
    return str(code)


def judged(engine: str, scope: dict[str, Any], folder: Path) -> Done:
    """Run the lines of a page with these names, and judge the dump that they wrote."""
    code = lines_of(engine).replace("/tmp", str(folder))
    exec(compile(code, engine, "exec"), {"torch": torch, "np": np, "time": time, **scope})
    (file,) = folder.glob("step-*.*")
    return cumae("replay", file.name, "--dialect", engine, cwd=folder)


def said(done: Done) -> dict[str, str]:
    """Return the verdict on each operation."""
    return {operation: word for word, operation in re.findall(r"(AGREES) \S+: (\w+),", done.stdout)}


@pytest.mark.parametrize("engine", ["vllm", "sglang", "fastdeploy", "flashinfer"])
def test_at_most_five_lines_capture_a_step(engine: str) -> None:
    assert 3 < len(lines_of(engine).splitlines()) <= 5


def scope_of_vllm(**changes: Any) -> dict[str, Any]:
    names = ("query_start_loc", "seq_lens", "positions")
    cm_base: dict[str, Any] = {name: held("vllm", name, STEP) for name in names}
    cm_base["block_table_tensor"] = held("vllm", "block_table", STEP)
    cm_base["slot_mapping"] = torch.tensor(Inputs(STEP)["slot_mapping"])
    cm_base["is_prefilling"] = torch.tensor([True, False, True, False])
    runner = SimpleNamespace(_kernel_block_sizes=[4], dcp_world_size=1, dcp_rank=0)
    groups = [SimpleNamespace(kv_cache_spec=SimpleNamespace(block_size=4))]
    namespace = SimpleNamespace(**{**cm_base, **changes})
    return {"cm_base": namespace, "self": runner, "kv_cache_groups": groups, "num_reqs": 3}


def test_a_step_of_vllm(tmp_path: Path) -> None:
    done = judged("vllm", scope_of_vllm(), tmp_path)
    assert (done.returncode, said(done)) == (0, {"position_ids": "AGREES", "slot_mapping": "AGREES"}), done


def test_a_wrong_slot_of_vllm(tmp_path: Path) -> None:
    slots = torch.tensor(Inputs(STEP)["slot_mapping"])
    slots[3] += 1
    done = judged("vllm", scope_of_vllm(slot_mapping=slots), tmp_path)
    assert done.returncode == 1
    assert "`slot_mapping[3]` differs from the oracle" in done.stdout


def test_starts_of_vllm_that_contradict_the_lengths(tmp_path: Path) -> None:
    starts = torch.tensor([0, 2, 3, 6, 7], dtype=torch.int32)
    done = judged("vllm", scope_of_vllm(query_start_loc=starts), tmp_path)
    assert (done.returncode, done.stderr) == (1, "")
    assert "the inputs contradict each other\n    query_start_loc[4] = 7, must be 6: padding" in done.stdout


def scope_of_sglang(case: Case, mode: Any, **changes: Any) -> dict[str, Any]:
    names = ("req_pool_indices", "seq_lens", "positions")
    batch: dict[str, Any] = {name: held("sglang", name, case) for name in names}
    batch["out_cache_loc"] = held("sglang", "raw_out_loc", case)
    for name in ("extend_prefix_lens", "extend_seq_lens"):
        batch[name] = held("sglang", name, case) if mode is ForwardMode.MIXED else None
    drafts = SimpleNamespace(draft_token_num=2) if mode is ForwardMode.TARGET_VERIFY else None
    batch |= {"forward_mode": mode, "spec_info": drafts, **changes}
    pool = SimpleNamespace(req_to_token=held("sglang", "req_to_token", case))
    runner = SimpleNamespace(req_to_token_pool=pool, page_size=case.batch.block_size)
    return {"forward_batch": SimpleNamespace(**batch), "self": runner}


@pytest.mark.parametrize(
    ("case", "mode"),
    [(MIXED, ForwardMode.MIXED), (DECODE, ForwardMode.DECODE), (VERIFY, ForwardMode.TARGET_VERIFY)],
)
def test_a_step_of_sglang(case: Case, mode: ForwardMode, tmp_path: Path) -> None:
    done = judged("sglang", scope_of_sglang(case, mode), tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert {"position_ids", "slot_mapping"} <= said(done).keys()


@pytest.mark.parametrize("mode", [2, "DECODE", "ForwardMode.DECODE", "decode", torch.tensor(2)])
def test_a_mode_of_sglang_in_any_form(mode: Any, tmp_path: Path) -> None:
    assert judged("sglang", scope_of_sglang(DECODE, mode), tmp_path).returncode == 0


def test_a_wrong_position_of_sglang(tmp_path: Path) -> None:
    positions = held("sglang", "positions", DECODE) + 1
    done = judged("sglang", scope_of_sglang(DECODE, ForwardMode.DECODE, positions=positions), tmp_path)
    assert done.returncode == 1
    assert "`positions[0]` differs from the oracle" in done.stdout


def test_a_step_of_sglang_without_requests(tmp_path: Path) -> None:
    none = torch.zeros(0, dtype=torch.int64)
    names = ("req_pool_indices", "seq_lens", "positions", "out_cache_loc")
    scope = scope_of_sglang(DECODE, ForwardMode.IDLE, **dict.fromkeys(names, none))
    done = judged("sglang", scope, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_whole_object_of_an_engine_is_a_dump(tmp_path: Path) -> None:
    batch = scope_of_sglang(DECODE, ForwardMode.DECODE)["forward_batch"]
    whole = EngineRecord()
    vars(whole).update(vars(batch), req_to_token=held("sglang", "req_to_token", DECODE), page_size=3)
    torch.save(whole, tmp_path / "step.pt")
    done = cumae("replay", "step.pt", "--dialect", "sglang", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


class EngineRecord:
    """A record of an engine, saved whole."""


def test_a_step_of_fastdeploy(tmp_path: Path) -> None:
    names = ("seq_lens_encoder", "seq_lens_decoder", "seq_lens_this_time", "block_tables", "cu_seqlens_q")
    meta: dict[str, Any] = {name: PaddleTensor(held("fastdeploy", name, STEP)) for name in names}
    owners = [0, 0, 1, 2, 2, 2, 7, 7, 7]
    for name in ("seq_lens_encoder", "seq_lens_decoder"):  # with rows for requests that do not run
        meta[name] = PaddleTensor(torch.cat((meta[name].values, torch.zeros(2, 1, dtype=torch.int32))))
    meta["batch_id_per_token"] = PaddleTensor(torch.tensor(owners, dtype=torch.int32))
    for wrong, positions in ((False, [3, 4, 6, 0, 1, 2]), (True, [3, 4, 6, 0, 1, 1])):
        meta["position_ids"] = PaddleTensor(torch.tensor(positions, dtype=torch.int32))
        folder = tmp_path / str(wrong)
        folder.mkdir()
        runner = SimpleNamespace(
            forward_meta=SimpleNamespace(**meta), cache_config=SimpleNamespace(block_size=4)
        )
        done = judged("fastdeploy", {"self": runner}, folder)
        assert (done.returncode, done.stderr) == (int(wrong), "")
        assert said(done)["sequence_layout"] == "AGREES"
        assert ("`position_ids[5]` differs from the oracle" in done.stdout) == wrong


def test_a_step_of_flashinfer(tmp_path: Path) -> None:
    names = ("qo_indptr", "paged_kv_indptr", "paged_kv_indices", "paged_kv_last_page_len", "page_size", "nnz")
    scope = {name: held("flashinfer", name, STEP) for name in (*names, "batch_indices", "positions")}
    done = judged("flashinfer", scope, tmp_path)
    assert (done.returncode, said(done)) == (0, {"sequence_layout": "AGREES", "position_ids": "AGREES"})
    (file,) = tmp_path.glob("step-*.pt")
    file.unlink()
    scope["batch_indices"] = scope["batch_indices"].roll(1)
    done = judged("flashinfer", scope, tmp_path)
    assert done.returncode == 1
    assert "`batch_indices[0]` differs from the oracle" in done.stdout

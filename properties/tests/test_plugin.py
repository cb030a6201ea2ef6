"""The plugin changes nothing uninvited, and says what to add where it is needed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if k not in ("TRITON_INTERPRET", "PYTEST_ADDOPTS")}
    clean["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    plugin = ["-p", "cumae.properties.plugin", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "-q", *plugin, *arguments]
    return subprocess.run(
        command, cwd=folder, env=clean, capture_output=True, text=True, timeout=300, check=False
    )


def write_test(folder: Path, body: str) -> None:
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_it.py").write_text(body)


def test_uninvited_it_imports_nothing_and_sets_nothing(tmp_path: Path) -> None:
    write_test(
        tmp_path,
        "import os, sys\n"
        "from hypothesis import settings\n"
        "def test_nothing():\n"
        "    assert 'TRITON_INTERPRET' not in os.environ\n"
        "    assert not {'torch', 'triton', 'numpy', 'cumae.oracle'} & set(sys.modules)\n"
        "    assert settings.default.max_examples == 100\n",
    )
    done = run_pytest(tmp_path)
    assert done.returncode == 0, done.stdout


KERNEL_TEST = """
import torch
from cumae import conforms_to

@conforms_to("position_ids", examples=5)
def test_positions(context_lens, query_lens, position_ids):
    position_ids.zero_()
    row = 0
    for context_len, query_len in zip(context_lens.tolist(), query_lens.tolist()):
        position_ids[row:row + query_len] = torch.arange(context_len, context_len + query_len)
        row += query_len
"""


def test_a_kernel_is_tested_from_another_folder(tmp_path: Path) -> None:
    write_test(tmp_path, KERNEL_TEST)
    done = run_pytest(tmp_path, "--cumae-device", "cpu", "-vv")
    assert done.returncode == 0, done.stdout
    for check in ("agrees", "writes_everything", "stays_in_bounds", "ignores_garbage", "keeps_facts"):
        assert f"test_positions[{check}] PASSED" in done.stdout


def test_unasked_a_kernel_test_errors_with_the_line_to_add(tmp_path: Path) -> None:
    write_test(tmp_path, KERNEL_TEST)
    done = run_pytest(tmp_path)
    assert done.returncode == 1
    assert "add --cumae-device=auto (or `cumae_device = auto` in the ini file)" in done.stdout


def test_a_wrong_kernel_fails_with_the_report(tmp_path: Path) -> None:
    write_test(
        tmp_path, KERNEL_TEST.replace("arange(context_len, context_len + query_len)", "arange(query_len)")
    )
    done = run_pytest(tmp_path, "--cumae-device", "cpu", "-k", "agrees")
    assert done.returncode == 1
    for part in ("`position_ids[0]` differs from the oracle", "expected 1", "reproduce: cumae replay"):
        assert part in done.stdout


@pytest.mark.parametrize("device", ["gpu", "cuda:0"])
def test_an_unknown_device_is_a_usage_error(device: str, tmp_path: Path) -> None:
    write_test(tmp_path, "def test_nothing(): pass\n")
    done = run_pytest(tmp_path, "--cumae-device", device)
    assert done.returncode == 4
    assert f"device = '{device}', must be one of 'auto', 'cpu', 'cuda'" in done.stderr

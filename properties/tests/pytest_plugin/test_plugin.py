"""The plugin changes nothing uninvited, and says what to add where it is needed."""

import os
from pathlib import Path

import pytest

from cumae.properties.tests.helpers.python_process import Done, run_python


def run_pytest(folder: Path, *arguments: str, fresh: bool = False) -> Done:
    clean = {k: v for k, v in os.environ.items() if k not in ("TRITON_INTERPRET", "PYTEST_ADDOPTS")}
    clean["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    plugin = ["-p", "cumae.properties.pytest_plugin.plugin", "-p", "no:cacheprovider"]
    return run_python("-m", "pytest", "-q", *plugin, *arguments, cwd=folder, environment=clean, fresh=fresh)


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
    done = run_pytest(tmp_path, fresh=True)
    assert done.returncode == 0, done.stdout
    assert "cumae" not in done.stdout


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


def test_a_wrong_kernel_fails_with_the_report_and_is_saved_where_it_is_said(tmp_path: Path) -> None:
    wrong = KERNEL_TEST.replace("arange(context_len, context_len + query_len)", "arange(query_len)")
    write_test(tmp_path, wrong)
    done = run_pytest(tmp_path, "--cumae-device", "cpu", "--cumae-failures", "kept", "-k", "agrees")
    assert done.returncode == 1
    for part in ("`position_ids[0]` differs from the oracle", "expected 1", "reproduce: cumae replay"):
        assert part in done.stdout
    assert len(list((tmp_path / "kept").glob("*.json"))) == 1
    assert not (tmp_path / ".cumae").exists()


@pytest.mark.parametrize("device", ["gpu", "cuda:0"])
def test_an_unknown_device_is_a_usage_error(device: str, tmp_path: Path) -> None:
    write_test(tmp_path, "def test_nothing(): pass\n")
    done = run_pytest(tmp_path, "--cumae-device", device)
    assert done.returncode == 4
    assert f"ERROR: --cumae-device = '{device}', must be one of 'auto', 'cpu', 'cuda'" in done.stderr


@pytest.mark.parametrize(
    ("option", "line"),
    [
        (
            "--cumae-profile=fast",
            "--cumae-profile = 'fast', must be one of 'quick', 'ci', 'nightly', 'soak'",
        ),
        ("--cumae-seed=-1", "--cumae-seed = '-1', must be a whole number >= 0"),
        ("--cumae-shards=0", "--cumae-shards = '0', must be a whole number >= 1"),
        ("--override-ini=cumae_shards=two", "--cumae-shards = 'two', must be a whole number >= 1"),
    ],
)
def test_a_value_that_cannot_be_parsed_is_a_usage_error(option: str, line: str, tmp_path: Path) -> None:
    write_test(tmp_path, "def test_nothing(): pass\n")
    done = run_pytest(tmp_path, option)
    assert done.returncode == 4
    assert line in done.stderr


def test_shards_make_items_with_seeds_of_their_own_and_runs_repeat(tmp_path: Path) -> None:
    note = "    shard = __import__('os').environ['PYTEST_CURRENT_TEST'].partition('agrees-')[2][:4]\n"
    note += "    with open(shard, 'a') as file: print(context_lens, query_lens, file=file)\n"
    write_test(
        tmp_path, KERNEL_TEST.replace("    position_ids.zero_()\n", note + "    position_ids.zero_()\n")
    )
    seen = []
    for shards in (("1of2", "2of2"), ("1of2",)):
        names = [f"agrees-{shard}" for shard in shards]
        options = ("--cumae-device", "cpu", "--cumae-shards", "2", "-vv", "-k", " or ".join(names))
        done = run_pytest(tmp_path, *options)
        assert done.returncode == 0, done.stdout
        for shard, name in zip(shards, names, strict=True):
            assert f"test_positions[{name}] PASSED" in done.stdout
            seen.append((tmp_path / shard).read_text())
            (tmp_path / shard).unlink()
    first, second, again = seen
    assert first == again != second


def test_the_summary_counts_under_a_profile_and_in_workers(tmp_path: Path) -> None:
    write_test(tmp_path, KERNEL_TEST.replace("examples=5", "checks=('agrees', 'stays_in_bounds')"))
    (tmp_path / "pytest.ini").write_text("[pytest]\ncumae_profile = ci\ncumae_device = cpu\n")
    serial = run_pytest(tmp_path)
    assert serial.returncode == 0, serial.stdout
    (line,) = [line for line in serial.stdout.splitlines() if line.startswith("cumae: ")]
    assert int(line.split()[1]) > 200
    assert line in run_pytest(tmp_path, "-p", "xdist", "-n", "2").stdout


def test_a_run_that_compared_nothing_fails(tmp_path: Path) -> None:
    write_test(
        tmp_path, KERNEL_TEST.replace("@conforms_to", "@__import__('pytest').mark.xfail\n@conforms_to")
    )
    (tmp_path / "conftest.py").write_text(
        "from cumae.properties.pytest_plugin import item as conformance\n"
        "from cumae.properties.results.verdict import Verdict\n"
        "conformance.search = lambda *given, **more: Verdict('f', 'position_ids', 'cumae', ('agrees',))\n"
    )
    done = run_pytest(tmp_path, "--cumae-device", "cpu", "-k", "agrees")
    assert done.returncode == 1, done.stdout
    assert "0 comparisons" in done.stdout
    assert "nothing was compared, which is a failure" in done.stdout

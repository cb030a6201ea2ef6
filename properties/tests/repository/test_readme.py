"""The README's figures are those of the result files, its example runs, its commands exist."""

import re
import subprocess
import sys
from pathlib import Path

from cumae.oracle import OPERATIONS

ROOT = Path(__file__).resolve().parents[3]
README = (ROOT / "README.md").read_text()


def test_figures_are_those_of_the_result_files() -> None:
    done = subprocess.run([sys.executable, str(ROOT / "ci/figures.py"), "--check"], check=False)
    assert done.returncode == 0, "run ci/figures.py"


def test_the_example_runs(tmp_path: Path) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    (tmp_path / "test_mine.py").write_text(example)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--cumae-device=auto"]
    command += ["-k", "agrees or writes_everything or stays_in_bounds"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout


def test_every_file_that_is_named_exists() -> None:
    prose = re.sub(r"```.*?```", "", README, flags=re.DOTALL)
    for name in re.findall(r"\]\(([^)#]+)\)", prose):
        if not name.startswith("http"):
            assert (ROOT / name).exists(), name
    for name in ("ci/fuzz", "ci/test", "ci/gpu"):
        assert f"./{name}" in README
        assert (ROOT / name).exists()


def test_the_table_of_operations_names_all_of_them() -> None:
    table = README.split("| operation | says |")[1].split("\n\n")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == set(OPERATIONS)

"""The wheel holds every package, the fixtures, their schema and the pages, and runs from another folder."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = ("oracle", "gpu_impl", "properties", "fixtures")
NOT_IN_THE_WHEEL = {"front", "limits", "pages", "selfcheck", "tests"}  # front is the package cumae itself


def build(folder: Path) -> Path:
    """Return the wheel built from a copy of the sources, unpacked."""
    source = folder / "source"
    source.mkdir()
    (source / "ci").mkdir()
    for name in ("pyproject.toml", "ci/backend.py", "ci/package.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    for name in FOLDERS:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(source)]
    if importlib.util.find_spec("setuptools") is not None:
        command.append("--no-build-isolation")
    subprocess.run(command, check=True, timeout=300)
    (wheel,) = folder.glob("*.whl")
    unpacked = folder / "site"
    zipfile.ZipFile(wheel).extractall(unpacked)
    return unpacked


def test_no_name_beside_the_build_backend_hides_the_standard_library() -> None:
    names = {path.stem for path in (ROOT / "ci").iterdir()}
    assert names & sys.stdlib_module_names == set()


def test_the_wheel_runs_from_another_folder(tmp_path: Path) -> None:
    site = build(tmp_path)
    for room in FOLDERS:
        wanted = {
            path.relative_to(ROOT / room)
            for kind in ("*.py", "*.json", "*.md")
            for path in (ROOT / room).rglob(kind)
            if not NOT_IN_THE_WHEEL & set(path.parts)
        }
        assert wanted == {path for path in wanted if (site / "cumae" / room / path).exists()}
    assert not any((site / "cumae" / room).exists() for room in ("fixtures/limits", "properties/front"))
    assert not any((site / "cumae/properties" / room).exists() for room in NOT_IN_THE_WHEEL)
    (metadata,) = site.glob("*.dist-info/METADATA")
    description = metadata.read_text(encoding="utf-8").partition("\n\n")[2]
    assert description.startswith("# cumae")
    assert re.findall(r"\]\((?!https?://)", description) == []
    code = "import cumae, cumae.oracle; print(cumae.__file__)"
    environment = os.environ | {"PYTHONPATH": str(site)}
    for arguments in (["-c", code], ["-m", "cumae.properties.commands", "list"]):
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        if arguments[0] == "-c":
            assert done.stdout.startswith(str(site))
        else:
            assert "dialect flashinfer" in done.stdout

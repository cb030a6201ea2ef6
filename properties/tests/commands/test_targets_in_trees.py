"""A target in a source tree that is not installed: every command takes it, and saved failures run again."""

from pathlib import Path

import pytest

from cumae.properties.tests.helpers.command_line import cumae, cumae_process
from cumae.properties.tests.helpers.own_tree import FILE, OP, TARGET, write_tree


@pytest.mark.parametrize("is_absolute", [False, True])
def test_a_right_function_agrees_and_is_said_to_be_taken(tmp_path: Path, is_absolute: bool) -> None:
    target = str(write_tree(tmp_path) / TARGET) if is_absolute else TARGET
    write_tree(tmp_path)
    done = cumae_process("fuzz", target, *OP, "--cases", "3", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    said = f"cumae: {target} is taken from its file, which is not imported: absent_config is not installed\n"
    assert done.stderr.startswith(said)  # a slow run tells its progress behind it


def test_a_wrong_function_is_saved_replayed_reduced_and_fixed(tmp_path: Path) -> None:
    write_tree(tmp_path, first=1)
    assert cumae_process("fuzz", TARGET, *OP, "--cases", "3", cwd=tmp_path).returncode == 1
    (file,) = (tmp_path / ".cumae" / "failures").glob("*.json")
    for how in ("--isolate", "--no-isolate"):
        again = cumae("replay", str(file), how, cwd=tmp_path)
        assert again.returncode == 1, again.stderr
        assert f"{TARGET} disagrees with position_ids" in again.stdout
    assert cumae("reduce", str(file), cwd=tmp_path).returncode == 1
    write_tree(tmp_path)
    assert cumae("replay", str(file), cwd=tmp_path).stdout.startswith("FIXED ")


@pytest.mark.parametrize("how", ["--isolate", "--no-isolate"])
@pytest.mark.parametrize(
    ("target", "told"),
    [
        (f"{FILE}:nowhere", ", must be a function taken from its file, as absent_config is not installed: "),
        ("own/none.py:f", ", must be importable: no file own/none.py"),
        (f"{FILE}:unfinished", "absent_config.SIZE = foreign, must be given because its value is used"),
    ],
)
def test_a_function_that_cannot_be_had_is_one_line(tmp_path: Path, target: str, told: str, how: str) -> None:
    write_tree(tmp_path)
    refused = cumae("fuzz", target, *OP, how, cwd=tmp_path)
    assert refused.returncode == 2
    assert told in refused.stderr.splitlines()[-1]


def test_a_function_that_is_taken_is_not_mutated(tmp_path: Path) -> None:
    write_tree(tmp_path)
    refused = cumae("mutate", TARGET, *OP, cwd=tmp_path)
    assert refused.returncode == 2
    assert "must be importable to be mutated: absent_config is not installed" in refused.stderr


def test_a_file_whose_imports_are_there_is_imported(tmp_path: Path) -> None:
    (tmp_path / "neighbour.py").write_text("from imported import once\nonce()\nFIRST = 0\n")
    (tmp_path / "imported.py").write_text("def once():\n    open('ran', 'w').close()\n")
    write_tree(tmp_path, changes={"own.sizes": "neighbour", "from absent_config": "from shutil"})
    file = tmp_path / "plain.py"
    text = (tmp_path / FILE).read_text().replace("import SIZE, register", "import copy as register")
    file.write_text(text.replace('@register("positions")\n', ""))
    done = cumae("fuzz", "plain.py:positions", *OP, "--cases", "3", "--no-isolate", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "taken from its file" not in done.stderr
    assert (tmp_path / "ran").exists()

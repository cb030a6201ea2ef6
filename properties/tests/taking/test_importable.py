"""Whether a file can be imported is decided by its imports, without running any."""

from pathlib import Path

import pytest

from cumae.properties.taking.importable import missing_import


def _missing(folder: Path, **files: str) -> str:
    for name, text in {"k": "", **files}.items():
        file = folder / f"{name.replace('__of__', '/')}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return missing_import(folder / "k.py", (folder,))


@pytest.mark.parametrize(
    "text",
    [
        "import torch, json\nfrom triton import language as tl\n",
        "import near\nfrom near import anything\n",
        "from folder import inner\nimport folder.inner\nfrom folder.inner import name\n",
        "def f():\n    import absent\n",
        "try:\n    import absent\nexcept ImportError:\n    absent = None\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import absent\n",
        "import absent\nfrom cumae import conforms_to\n",
        "import absent, (\n",
    ],
)
def test_nothing_is_missing(tmp_path: Path, text: str) -> None:
    assert _missing(tmp_path, k=text, near="", folder__of__inner="") == ""


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("import absent.part\n", "absent.part"),
        ("from folder.other import name\n", "folder.other"),
        ("from .other import name\n", "other"),
        ("import near\n", "far"),
        ("class K:\n    import absent\n", "absent"),
        ("try:\n    import absent\nfinally:\n    pass\n", "absent"),
    ],
)
def test_the_first_missing_module_is_named(tmp_path: Path, text: str, missing: str) -> None:
    assert _missing(tmp_path, k=text, near="import far\n", folder__of__inner="") == missing


def test_the_package_of_a_file_is_imported_with_it(tmp_path: Path) -> None:
    _missing(tmp_path, own____init__="", own__of____init__="import absent\n", own__of__k="")
    assert missing_import(tmp_path / "own" / "k.py", (tmp_path,)) == "absent"


def test_a_folder_without_init_yields_to_an_installed_package(tmp_path: Path) -> None:
    assert _missing(tmp_path, k="import triton.language\n", triton__of__fast="") == ""

"""Versions of a source tree: a commit of a git repository, its working tree, a folder or a wheel."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from cumae.oracle.model.rules import require
from cumae.properties.taking.unpack import unpacked

_OF_HOOKS = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")


@contextmanager
def version(field: str, name: str | None, repository: Path) -> Iterator[Path]:
    """Yield the folder that holds the Python files of a version.

    ``name``: a revision of the repository, else a folder or a wheel; None for the repository's working tree.
    The files of a revision lie in a temporary folder, which is removed at the end; the checkout and its index
    stay as they are. Raises ``ValueError`` naming the field if there is no such version.
    """
    top = _asked(repository, "rev-parse", "--show-toplevel")
    if name is None:
        require(bool(top), field, name, f"be given: {repository} is not in a git repository")
        yield Path(top)
        return
    commit = _asked(repository, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}") if top else ""
    if not commit:
        path = Path(name).expanduser()
        known = f"revision of {top}" if top else f"revision ({repository} is not in a git repository)"
        require(path.exists(), field, name, f"be a folder, a wheel or a {known}")
        yield path if path.is_dir() else unpacked(path)
        return
    with TemporaryDirectory(prefix="cumae-version-") as made:
        folder = Path(made)
        files, index = folder / "files", folder / "index"
        _git(Path(top), "read-tree", commit, index=index)
        listed = _git(Path(top), "ls-files", "-z", "--", "*.py", index=index).stdout
        _git(Path(top), "checkout-index", "-z", "--stdin", f"--prefix={files}/", index=index, given=listed)
        files.mkdir(exist_ok=True)
        yield files


def _asked(repository: Path, *arguments: str) -> str:
    """Return a line that git prints, "" if it refuses or there is no git."""
    try:
        return _git(repository, *arguments).stdout.decode().strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def _git(
    repository: Path, *arguments: str, index: Path | None = None, given: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Run git in a repository, with an index of its own if one is given."""
    environment = {name: value for name, value in os.environ.items() if name not in _OF_HOOKS}
    environment |= {"GIT_INDEX_FILE": str(index)} if index is not None else {}
    command = ["git", "-C", str(repository), *arguments]
    return subprocess.run(command, input=given, env=environment, capture_output=True, check=True)

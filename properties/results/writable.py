"""Whether results can be written where they are asked for: tried before anything runs, and told after."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile


def cannot(name: str, path: Path, kind: str, error: OSError) -> str:
    """Return in words that a file or folder could not be written."""
    why = error.strerror or type(error).__name__
    return f"{name} = {str(path)!r}, must be a {kind} that can be written: {why}"


@contextmanager
def writing(name: str, path: Path, kind: str = "file") -> Iterator[None]:
    """Raise ``ValueError`` for what keeps a file or folder from being written within."""
    try:
        yield
    except OSError as error:
        raise ValueError(cannot(name, path, kind, error)) from error


def require_file(name: str, file: Path) -> None:
    """Raise ``ValueError`` unless a file can be written; nothing is left behind."""
    with writing(name, file):
        if file.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if file.exists():
            file.open("ab").close()
        else:
            _write_in(file.parent)


def require_folder(name: str, folder: Path) -> None:
    """Raise ``ValueError`` unless files can be written into a folder, made if need be; nothing is left."""
    with writing(name, folder, "folder"):
        whole = folder.absolute()
        _write_in(next(path for path in (whole, *whole.parents) if path.exists()))


def _write_in(folder: Path) -> None:
    with TemporaryFile(dir=folder) as file:
        file.write(b"\0")

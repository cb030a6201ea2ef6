"""Checks that results can be written: before a run, and while writing."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile


def cannot(name: str, path: Path, kind: str, error: OSError) -> str:
    """Return the message for a file or folder that could not be written."""
    why = error.strerror or type(error).__name__
    return f"{name} = {str(path)!r}, must be a {kind} that can be written: {why}"


@contextmanager
def writing(name: str, path: Path, kind: str = "file") -> Iterator[None]:
    """Turn an ``OSError`` raised within into a ``ValueError`` that names the file or folder."""
    try:
        yield
    except OSError as error:
        raise ValueError(cannot(name, path, kind, error)) from error


def require_file(name: str, file: Path) -> None:
    """Raise ``ValueError`` unless a file can be written; leaves nothing behind."""
    with writing(name, file):
        if file.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if file.exists():
            file.open("ab").close()
        else:
            _write_in(file.parent)


def require_folder(name: str, folder: Path) -> None:
    """Raise ``ValueError`` unless files can be written into a folder, made if missing; leaves nothing."""
    with writing(name, folder, "folder"):
        whole = folder.absolute()
        _write_in(next(path for path in (whole, *whole.parents) if path.exists()))


def _write_in(folder: Path) -> None:
    with TemporaryFile(dir=folder) as file:
        file.write(b"\0")

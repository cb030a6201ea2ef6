"""Files inside wheels, unpacked once into a cache, so that tracebacks and sources name real files."""

import os
import shutil
import tempfile
import zipfile
import zlib
from pathlib import Path

from cumae.oracle.model.rules import require


def file_of(source: str | Path) -> Path:
    """Return the file of a path, which may lead through a wheel: ``x.whl/package/module.py``.

    Raises ``ValueError`` if there is none.
    """
    path = Path(source).expanduser().resolve()
    for wheel in (path, *path.parents):
        if wheel.suffix == ".whl" and wheel.is_file():
            path = unpacked(wheel) / path.relative_to(wheel)
            break
    rule = "name a Python file in it, as in vllm.whl/vllm/v1/worker/block_table.py"
    require(not path.is_dir(), "source", str(source), rule)
    require(path.is_file(), "source", str(source), "be a file")
    require(path.suffix == ".py", "source", str(source), "be a Python file")
    return path


def unpacked(wheel: Path) -> Path:
    """Return the cache folder with the Python files of a wheel, unpacking it if missing.

    The folder is named by the wheel's content. The cache lies in ``$XDG_CACHE_HOME/cumae``, by default
    ``~/.cache/cumae``. Raises ``ValueError`` for a file that is not a wheel.
    """
    try:
        archive = zipfile.ZipFile(wheel)
    except zipfile.BadZipFile as error:
        raise ValueError(f"source = {str(wheel)!r}, must be a wheel: {error}") from error
    with archive:
        files = [info for info in archive.infolist() if info.filename.endswith(".py")]
        digest = zlib.crc32(repr([(info.filename, info.CRC) for info in files]).encode())
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cumae" / "wheels"
        folder = cache / f"{wheel.stem}-{digest:08x}"
        if not folder.is_dir():
            cache.mkdir(parents=True, exist_ok=True)
            partial = tempfile.mkdtemp(prefix=".partial-", dir=cache)
            archive.extractall(partial, files)
            try:
                Path(partial).rename(folder)
            except OSError:  # another process was first
                shutil.rmtree(partial)
    return folder

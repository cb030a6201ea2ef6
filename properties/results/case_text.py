"""A failure as one line of text, which every command takes in place of a file."""

import base64
import json
import zlib
from pathlib import Path
from typing import Any

from cumae.oracle.model.case_json import MAX_FILE_BYTES, parse, read_file
from cumae.oracle.model.rules import require

PREFIX = "cumae1:"
MOST_CHARACTERS = 4_000
"""The longest text that a report prints; a terminal cuts typed lines at 4,096 characters."""
_SHOWN = 24


def to_text(content: Any) -> str:
    """Return plain JSON values as text: base64 of compressed JSON behind a prefix.

    >>> from_text(to_text({"block_size": 4}))
    {'block_size': 4}
    """
    packed = zlib.compress(json.dumps(content, separators=(",", ":")).encode(), 9)
    return PREFIX + base64.urlsafe_b64encode(packed).decode().rstrip("=")


def from_text(text: str) -> object:
    """Return the JSON value that ``to_text`` wrote; spaces and line breaks within are ignored.

    Raises ``ValueError`` for a text that is not whole.
    """
    body = "".join(text.split()).removeprefix(PREFIX)
    try:
        packed = base64.b64decode(body + "=" * (-len(body) % 4), altchars=b"-_", validate=True)
        unpacking = zlib.decompressobj()
        plain = unpacking.decompress(packed, MAX_FILE_BYTES)
        is_whole = unpacking.eof
    except (ValueError, zlib.error):
        is_whole = False
    require(is_whole, "text", shortened(text), "be whole, as a report printed it")
    return parse(plain, shortened(text))


def is_text(source: Path) -> bool:
    """Return whether an argument is such a text and no file."""
    return str(source).lstrip().startswith(PREFIX)


def read_source(source: Path) -> object:
    """Return the JSON value in a file or a text. Raises ``ValueError`` if there is none."""
    return from_text(str(source)) if is_text(source) else read_file(source)


def shortened(source: Path | str) -> str:
    """Return a file as it is, and the beginning of a text."""
    shown = str(source)
    if not is_text(Path(source)) or len(shown) <= _SHOWN:
        return shown
    return f"{shown[:_SHOWN]}…"


def name_of(source: Path) -> str:
    """Return the name of a file without its folders, or the beginning of a text."""
    return shortened(source) if is_text(source) else source.name

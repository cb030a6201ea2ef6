"""The README as a package index can show it, as a setup.py would make it. ``backend.py`` runs this file."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?://|#)([^)]+)\)")


def published(readme: str, repository: str = "") -> str:
    """Return a README without relative links: they lead to the repository, or become plain text without one.

    >>> published("[a](b.md) ![c](d.svg)", "https://host/us/it")
    '[a](https://host/us/it/blob/HEAD/b.md) ![c](https://host/us/it/raw/HEAD/d.svg)'
    >>> published("[a](b.md) ![c](d.svg)")
    'a '
    """

    def linked(found: re.Match[str]) -> str:
        mark, words, path = found.groups()
        if repository:
            return f"{mark}[{words}]({repository}/{'raw' if mark else 'blob'}/HEAD/{path})"
        return "" if mark else words

    return LINK.sub(linked, readme)


if __name__ == "__main__":
    from setuptools import setup
    from setuptools.config.pyprojecttoml import load_file

    urls = load_file(ROOT / "pyproject.toml")["project"].get("urls", {})
    text = published((ROOT / "README.md").read_text(encoding="utf-8"), urls.get("Repository", "").rstrip("/"))
    setup(long_description=text, long_description_content_type="text/markdown")

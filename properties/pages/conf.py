"""The site: every Markdown page where it stands, and the public names. ``ci/docs`` builds it."""

import inspect
import shutil
from pathlib import Path
from typing import Any, get_args

import cumae

ROOT = Path(__file__).resolve().parents[2]
README, API = "README", "properties/pages/api"

project = "cumae"
author = copyright = "the cumae authors"
extensions = ["myst_parser", "sphinx.ext.autodoc"]
root_doc = README
include_patterns = ["*.md", "ci/results/README.md", "properties/**.md"]
exclude_patterns = [".*", "build", "dist", "**/__pycache__"]
myst_heading_anchors = 3
nitpicky = True
nitpick_ignore_regex = [("py:.*", ".*")]  # signatures name types that are no part of the interface
html_theme = "furo"
html_static_path, html_css_files = ["site.css"], ["site.css"]
html_title = "cumae"
html_show_sourcelink = html_copy_source = False
html_theme_options = {"navigation_with_keys": True}
pygments_style, pygments_dark_style = "default", "github-dark"
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True

FIRST = ("pytest_plugin/testing-a-kernel", "results/reading-a-failure", "commands/commands", "checks/checks")


def groups() -> dict[str, list[str]]:
    """Return the pages under each caption of the menu; a page of ``properties/`` is found by itself."""
    found = {path.relative_to(ROOT).with_suffix("").as_posix() for path in ROOT.glob("properties/**/*.md")}
    project_pages = sorted(path.stem for path in ROOT.glob("*.md") if path.stem != README)
    dialects = sorted(page for page in found if page.startswith("properties/dialects/"))
    reference = ["properties/pages/glossary", "properties/operations/operations", API]
    first = [f"properties/{page}" for page in FIRST]
    return {
        "Use it": first + sorted(found - {*dialects, *reference, *first}),
        "Names of engines": dialects,
        "Look it up": reference,
        "The project": ["ci/results/README", *project_pages],
    }


def _menu() -> str:
    return "".join(
        f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n" + "\n".join(pages) + "\n```\n"
        for caption, pages in groups().items()
    )


def _public_names() -> str:
    """Return a directive for each public name of cumae."""
    parts = []
    for name in sorted(cumae.__all__, key=str.lower):
        value = getattr(cumae, name)
        if inspect.isclass(value):
            parts.append(f".. autoclass:: cumae.{name}\n   :members:\n")
        elif inspect.isroutine(value):
            parts.append(f".. autofunction:: cumae.{name}\n")
        else:
            names = get_args(value) or (value if isinstance(value, dict) else ())
            said = f"One of {', '.join(f'``{one}``' for one in names)}." if names else f"``{value!r}``"
            parts.append(f".. py:data:: cumae.{name}\n\n   {said}\n")
    return "\n```{eval-rst}\n" + "\n".join(parts) + "```\n"


def _extended(app: Any, page: str, source: list[str]) -> None:
    """Add the menu to the README, and the public names to their page."""
    source[0] += {README: _menu, API: _public_names}.get(page, str)()


def _index(app: Any, error: Exception | None) -> None:
    if error is None:
        shutil.copy(Path(app.outdir, f"{README}.html"), Path(app.outdir, "index.html"))


def setup(app: Any) -> None:
    """Connect what this file adds to the pages."""
    app.connect("source-read", _extended)
    app.connect("build-finished", _index)

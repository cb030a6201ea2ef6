"""ARCHITECTURE.md and CONTRIBUTING.md name files that exist, every room, and the files of each recipe."""

import re
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PATH = re.compile(
    r"(?<![\w/.])(?:(?:ci|fixtures|gpu_impl|oracle|properties)/[\w/.<>*]*[\w/>*]|[A-Z]+\.md|\w+\.toml)"
)
MOST_FILES = 10

# Files outside the recipe that name the walked thing, with the reason. Of an operation: adapters alone.
BESIDE_THE_DIALECT = {
    "fixtures/bugs/collection.py": "a bug of the engine",
    "properties/engines/flashinfer/engine.py": "the adapters of the engine's released code",
    "properties/engines/released.py": "the adapters of the engine's released code",
    "properties/tests/dialects/test_dialect_flashinfer_capture.py": "the way back from dumped tensors",
    "properties/tests/dialects/test_dialect_heads.py": "keys and values with the names of three engines",
    "properties/tests/dialects/test_dialect_heads_wrong.py": "wrong functions with names of three engines",
    "properties/tests/dialects/test_dialect_flashinfer_kernels.py": "right and wrong functions in its names",
}
BESIDE_THE_CHECK = {
    "fixtures/bugs/collection.py": "the bugs that the check catches",
    "properties/checks/survives_large_ids.py": "does not report what this check reports",
    "properties/search/foresight.py": "the calls that checks are sure to make",
    "properties/tests/operations/test_strides.py": "the strides that the check tries",
    "properties/tests/results/test_case_shown.py": "an example of a report",
}

# Lists that take a line for each operation.
RE_EXPORTS = {
    "oracle/__init__.py",
    "oracle/operations.py",
    "gpu_impl/__init__.py",
    "fixtures/correct/__init__.py",
}


@dataclass(frozen=True)
class Recipe:
    """A recipe of CONTRIBUTING.md, walked for one thing that exists. ``named``: how a file names it."""

    title: str
    blank: str
    walked: str
    named: str
    beside: dict[str, str]
    page: str = CONTRIBUTING

    def filled(self, path: str) -> str:
        return path.replace(self.blank, self.walked)

    def files(self) -> set[str]:
        """Return the files of the recipe; of a pattern, those that name the thing."""
        text = self.page.split(f"## {self.title}\n")[1].split("\n## ")[0]
        paths = [self.filled(path) for path in re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE)]
        found = (
            file for path in paths for file in ([path] if "*" not in path else self.naming(matching(path)))
        )
        return {file for file in found if self.title != "An operation" or file not in RE_EXPORTS}

    def others(self) -> set[str]:
        """Return the source files that name the thing and are not of the recipe."""
        others = set(self.naming(sources())) - self.files() - RE_EXPORTS
        adapters = "properties/engines/" if self.title == "An operation" else "-"
        return {file for file in others if not file.startswith(adapters)}

    def naming(self, files: list[str]) -> list[str]:
        return [file for file in files if re.search(self.named, (ROOT / file).read_text(encoding="utf-8"))]


RECIPES = [
    Recipe(
        "An operation",
        "<operation>",
        "local_lens",
        r"\blocal_lens\b|LocalLens|LOCAL_LENS",
        {},
    ),
    Recipe(
        "A dialect",
        "<engine>",
        "flashinfer",
        r'"flashinfer"|dialects\.flashinfer|FLASHINFER',
        BESIDE_THE_DIALECT,
    ),
    Recipe("A check", "<check>", "accepts_strides", "accepts_strides", BESIDE_THE_CHECK),
]
BLANKS = {recipe.blank: recipe.walked for recipe in RECIPES}


def matching(pattern: str) -> list[str]:
    return sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob(pattern))


def sources() -> list[str]:
    """Return the hand-written source files; not this one, nor limits, which no new thing needs."""
    files = [
        file
        for room in ("fixtures", "gpu_impl", "oracle", "properties")
        for file in matching(f"{room}/**/*.py")
    ]
    apart = Path(__file__).resolve().relative_to(ROOT).as_posix()
    return [
        file for file in [*files, *matching("ci/*.py")] if not file.startswith((apart, "fixtures/limits/"))
    ]


@pytest.mark.parametrize("page", [ARCHITECTURE, CONTRIBUTING], ids=["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_every_file_that_a_page_names_exists(page: str) -> None:
    found = PATH.findall(page)
    assert len(found) > 20
    for path in found:
        for blank, walked in BLANKS.items():
            path = path.replace(blank, walked)
        assert matching(path) if "*" in path else (ROOT / path).exists(), path


def test_every_room_stands_in_the_order_of_the_contract() -> None:
    contract = (ROOT / "pyproject.toml").read_text(encoding="utf-8").split("layers = [")[1].split("]")[0]
    rooms = re.findall(r"cumae\.properties\.(\w+)", contract)
    assert re.findall(r"^\| `properties/(\w+)/` \|", ARCHITECTURE, re.MULTILINE) == rooms
    folders = {path.parent.name for path in (ROOT / "properties").glob("*/__init__.py")}
    assert folders == {*rooms, "front"}
    assert "`properties/front/`" in ARCHITECTURE


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.walked)
class TestRecipes:
    def test_every_file_exists(self, recipe: Recipe) -> None:
        assert [file for file in recipe.files() if not (ROOT / file).is_file()] == []

    def test_no_other_source_file_names_it_without_a_reason(self, recipe: Recipe) -> None:
        assert recipe.others() == set(recipe.beside)

    def test_it_takes_ten_files_at_most(self, recipe: Recipe) -> None:
        assert len(recipe.files()) <= MOST_FILES


def test_a_file_that_a_recipe_leaves_out_is_noticed() -> None:
    (recipe,) = (recipe for recipe in RECIPES if recipe.walked == "accepts_strides")
    registry = "properties/checks/__init__.py"
    shorter = replace(recipe, page=CONTRIBUTING.replace(f"| `{registry}` |", "| the registry |"))
    assert shorter.others() == {registry, *recipe.beside}


def test_the_lists_take_a_line_for_the_operation() -> None:
    (recipe,) = (recipe for recipe in RECIPES if recipe.walked == "local_lens")
    assert set(recipe.naming(sorted(RE_EXPORTS))) == RE_EXPORTS
    assert all(f"`{file}`" in CONTRIBUTING for file in RE_EXPORTS)

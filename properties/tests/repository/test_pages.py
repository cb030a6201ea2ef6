"""The pages: examples run, tables are whole, pictures are fresh, and the menu has every page."""

import ast
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import cumae
from cumae.gpu_impl import write_slot_mapping
from cumae.oracle import OPERATIONS, Batch, Case, Inputs, Request
from cumae.oracle.position_ids import position_ids
from cumae.oracle.slot_mapping import slot_mapping
from cumae.properties.checks import CHECKS
from cumae.properties.commands.main import COMMANDS
from cumae.properties.running.device import prepare
from cumae.properties.selfcheck.glossary import STEP, pictures
from cumae.properties.tests.helpers.script import module_at

DEVICE = prepare("auto")
ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted({*ROOT.glob("*.md"), *ROOT.glob("properties/**/*.md"), ROOT / "ci/results/README.md"})
SITE = module_at("properties/pages/conf.py")
NAMES = [page.relative_to(ROOT).as_posix() for page in PAGES]


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def examples_of(name: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", text_of(name), re.DOTALL)


@pytest.mark.parametrize("name", NAMES)
def test_every_link_of_a_page_leads_to_a_file(name: str) -> None:
    prose = re.sub(r"```.*?```|`[^`]*`", "", text_of(name), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", prose):
        if not target.startswith("http"):
            assert (ROOT / name).parent.joinpath(target).exists(), target


@pytest.mark.parametrize("name", NAMES)
def test_every_example_is_python(name: str) -> None:
    for example in examples_of(name):
        ast.parse(example)


def test_every_page_stands_in_the_menu_once() -> None:
    menu = Counter(page for pages in SITE.groups().values() for page in pages)
    assert menu == Counter(name.removesuffix(".md") for name in NAMES if name != "README.md")


def test_the_page_of_names_has_every_public_name() -> None:
    directives = SITE._public_names()
    assert re.findall(r":: cumae\.(\w+)$", directives, re.MULTILINE) == sorted(cumae.__all__, key=str.lower)


class TestTables:
    def rows(self, name: str, pattern: str) -> list[str]:
        return re.findall(pattern, text_of(name), re.MULTILINE)

    def test_operations(self) -> None:
        rows = self.rows("properties/operations/operations.md", r"^\| `(\w+)` \|")
        assert sorted(rows) == sorted(OPERATIONS)

    def test_checks(self) -> None:
        assert sorted(self.rows("properties/checks/checks.md", r"^\| `(\w+)` \|")) == sorted(CHECKS)

    def test_commands(self) -> None:
        assert set(self.rows("properties/commands/commands.md", r"^\| `cumae (\w+)")) == set(COMMANDS)


class TestExamples:
    PAGE = "properties/pytest_plugin/testing-a-kernel.md"

    @pytest.mark.parametrize("number", [0, 2])
    def test_kernels_run_under_pytest(self, number: int, tmp_path: Path) -> None:
        (tmp_path / "test_mine.py").write_text(examples_of(self.PAGE)[number])
        (tmp_path / "pytest.ini").write_text("[pytest]\n")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--cumae-device=auto"]
        command += ["-k", "agrees or writes_everything or stays_in_bounds"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stdout
        assert " passed" in done.stdout

    def test_the_script_runs(self, tmp_path: Path) -> None:
        script = examples_of(self.PAGE)[1]
        for text, status in ((script, 0), (script.replace("+ rows -", "- rows +"), 1)):
            (tmp_path / "script.py").write_text(text)
            done = subprocess.run(
                [sys.executable, "script.py"],
                cwd=tmp_path,
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
            assert done.returncode == status, done.stderr

    def test_attention_judges_as_its_page_says(self) -> None:
        (example,) = examples_of("properties/attention/attention.md")
        example = example.replace('"cpu"', repr(DEVICE))
        case = Case(Batch((Request(3, 2, (5, 2)), Request(6, 1, (7, 3), "decode")), 4))
        names: dict[str, Any] = {
            "case": case,
            "my_position_ids": position_ids,
            "my_kernel": write_slot_mapping,
        }
        *imports, first, second, third = ast.parse(example).body
        exec(compile(ast.Module(imports, []), "imports", "exec"), names)
        for call in (first, second, third):
            assert isinstance(call, ast.Expr)
            assert eval(compile(ast.Expression(call.value), "call", "eval"), names) == []


def test_the_pictures_of_the_glossary_are_those_of_the_oracles() -> None:
    page = text_of("properties/pages/glossary.md")
    drawn = pictures()
    assert set(re.findall(r"\(pictures/([\w-]+)\.svg\)", page)) == set(drawn)
    for name, picture in drawn.items():
        assert text_of(f"properties/pages/pictures/{name}.svg") == picture, "run ci/pictures.py"


def test_the_step_of_the_glossary_is_the_one_that_its_words_describe() -> None:
    inputs = Inputs(STEP)
    assert inputs.call(slot_mapping).slot_mapping == [9, 10, 11, 38, 20, 21]
    assert inputs.call(position_ids).position_ids == [5, 6, 7, 6, 0, 1]
    page = text_of("properties/pages/glossary.md")
    assert "Token 0 has position 5, which is column 1 and offset 1 of request 0: block 2, slot 9." in page

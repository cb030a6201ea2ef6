"""The figures of the README are those of the results, its kernel fails, its commands and files exist."""

import os
import re
import subprocess
import sys
from pathlib import Path

from cumae.properties.commands.main import COMMANDS
from cumae.properties.selfcheck.filled import filled
from cumae.properties.selfcheck.sample import COMMAND, example_of
from cumae.properties.tests.helpers.script import module_at

ROOT = Path(__file__).resolve().parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")
LONGEST = 200
WRONG, RIGHT = "position = token - start\n", "position = tl.load(context_lens + request) + token - start\n"


def published(repository: str = "") -> str:
    return str(module_at("ci/package.py").published(README, repository))


def without_run(line: str) -> str:
    """Return a line of a report without the text of the case and the versions of the machine."""
    return re.sub(r"(cumae1:|versions: ).*", r"\1…", line)


def fuzz(example: str, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the README's command on an example, in an empty folder."""
    (folder / "slots.py").write_text(example, encoding="utf-8")
    command = [sys.executable, "-m", *COMMAND.split(), "--device", "cpu", *options]
    wide = os.environ | {"COLUMNS": "200"}
    return subprocess.run(
        command, cwd=folder, env=wide, capture_output=True, text=True, timeout=600, check=False
    )


def test_figures_are_those_of_the_result_files() -> None:
    done = subprocess.run([sys.executable, str(ROOT / "ci/figures.py"), "--check"], check=False)
    assert done.returncode == 0, "run ci/figures.py"


def test_the_wrong_kernel_fails_as_the_page_shows(tmp_path: Path) -> None:
    done = fuzz(example_of(README), tmp_path, "--cases", "20")
    assert done.returncode == 1, done.stderr
    block = README.split("<!-- failure: ")[1].split("```console\n")[1].split("```")[0]
    command, *shown = block.splitlines()
    assert command == f"$ {COMMAND}"
    printed = {without_run(line.rstrip()) for line in done.stdout.splitlines()}
    for line in shown[1:]:
        assert without_run(line) in printed, f"{line!r} is not printed: run ci/pictures.py"


def test_the_wrong_kernel_has_one_fault(tmp_path: Path) -> None:
    example = example_of(README)
    assert example.count(WRONG) == 1
    right = example.replace(WRONG, RIGHT).replace("(starts,", "(starts, context_lens,")
    right = right.replace("[grid](query_start_loc,", "[grid](query_start_loc, num_computed_tokens,")
    right = right.replace("test_slots(query_start_loc,", "test_slots(query_start_loc, num_computed_tokens,")
    done = fuzz(right, tmp_path, "--cases", "20")
    assert done.returncode == 0, done.stdout


def test_the_wrong_kernel_is_right_without_cached_tokens(tmp_path: Path) -> None:
    promise = 'padding="untouched", max_context_len=0, phases=("prefill",)'
    uncached = example_of(README).replace('padding="untouched"', promise)
    assert fuzz(uncached, tmp_path, "--cases", "20").returncode == 0


def test_every_file_that_is_named_exists() -> None:
    prose = re.sub(r"```.*?```", "", README, flags=re.DOTALL)
    for name in re.findall(r"\]\(([^)#]+)\)", prose):
        if not name.startswith("http"):
            assert (ROOT / name).exists(), name
    for name in ("ci/fuzz", "ci/test", "ci/gpu", "ci/docs"):
        assert f"./{name}" in README
        assert (ROOT / name).exists()
    assert "exec ci/test" in (ROOT / ".ci/run").read_text(encoding="utf-8")


def test_every_command_that_is_named_exists() -> None:
    named = set(re.findall(r"(?:`|\$ )cumae ([a-z]+)", README))
    assert len(named) > 10
    assert named <= set(COMMANDS)


def test_it_is_short_and_claims_no_proof() -> None:
    assert len(README.splitlines()) <= LONGEST
    for text in (README, (ROOT / "pyproject.toml").read_text(encoding="utf-8")):
        assert not re.search(r"\bpro(ve|ves|ved|ven|of)\b", text, re.IGNORECASE)


class TestPublished:
    def test_links_lead_to_the_repository(self) -> None:
        text = published("https://host.example/us/cumae")
        assert "(https://host.example/us/cumae/raw/HEAD/properties/pages/pictures/failure.svg)" in text
        assert "(https://host.example/us/cumae/blob/HEAD/properties/dialects/vllm/README.md)" in text
        assert not re.search(r"\]\((?!https?://)", text)

    def test_without_a_repository_no_link_is_broken(self) -> None:
        text = published()
        assert not re.search(r"\]\((?!https?://)", text)
        assert "github.com/vllm-project/vllm/issues/42982" in text
        assert "reading a failure line by line" in text


def test_a_page_without_the_block_is_refused() -> None:
    assert filled("<!-- f: x -->\n1\n<!-- end of f -->", "f", "2") == "<!-- f: x -->\n2\n<!-- end of f -->"
    for page in ("", "<!-- f: x -->", "<!-- end of f -->", "<!-- g: x --> <!-- end of g -->"):
        try:
            filled(page, "f", "2")
        except ValueError as error:
            assert "must have a block 'f'" in str(error)
        else:
            raise AssertionError(page)

"""Code is taken by name out of a source tree that cannot be imported."""

import inspect
import os
import subprocess
import sys
import zipfile
from importlib import import_module
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import cumae
from cumae.properties.running.device import prepare
from cumae.properties.taking.unpack import unpacked
from cumae.properties.tests.helpers.released_tree import FILE, SOURCE

Tensor = torch.Tensor
DEVICE = prepare("auto")
interpreted = pytest.mark.skipif(DEVICE == "cuda", reason="code is rewritten for the interpreter only")


def verdict_on(kernel: Any) -> cumae.Verdict:
    def launch(
        num_reqs: int, query_start_loc: Tensor, num_computed_tokens: Tensor, positions: Tensor
    ) -> None:
        positions.zero_()
        if num_reqs:
            kernel(num_reqs, query_start_loc, num_computed_tokens, positions)

    domain = cumae.Domain(captured=False)
    how: dict[str, Any] = {"domain": domain, "examples": 10, "checks": ["agrees", "stays_in_bounds"]}
    return cumae.check(launch, "position_ids", dialect="vllm", save_to=None, **how)


def test_a_class_is_taken_with_its_base_decorators_and_constants(tree: Path) -> None:
    kernel = cumae.take(tree / FILE, "Positions")()
    assert vars(type(kernel))["__call__"].is_signed
    verdict = verdict_on(kernel)
    assert verdict.ok, verdict.failure


def test_a_wheel_is_unpacked_once_and_lines_are_those_of_its_files(wheel: Path) -> None:
    taken = cumae.take(f"{wheel}/{FILE}", "filled")
    file = Path(inspect.getsourcefile(taken) or "")
    assert file.read_text() == dedent(SOURCE[FILE])
    lines, number = inspect.getsourcelines(taken)
    assert lines[0] == "def filled(count):\n" == file.read_text().splitlines(keepends=True)[number - 1]
    before = file.stat().st_mtime_ns
    assert inspect.getsourcefile(cumae.take(wheel / FILE, "filled")) == str(file)
    assert file.stat().st_mtime_ns == before
    assert not list(unpacked(wheel).rglob("*.so"))


def test_a_wheel_with_other_content_has_a_cache_of_its_own(wheel: Path, tree: Path) -> None:
    assert cumae.take(wheel / "eng/kernels/constants.py", "HIDDEN") == 40
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("eng/kernels/constants.py", "HIDDEN = 41\n")
    assert cumae.take(wheel / "eng/kernels/constants.py", "HIDDEN") == 41


def test_several_names_come_as_a_tuple_that_shares_one_module(tree: Path) -> None:
    filled, kind, table = cumae.take(tree / FILE, "filled", "Positions", "TABLE")
    assert filled.__globals__ is kind.later.__globals__
    assert table == {"one": 1, "two": 2}


def test_a_method_is_taken_without_the_rest_of_its_class(tree: Path) -> None:
    launch = cumae.take(tree / FILE, "Positions.later")
    with pytest.raises(ValueError, match=r"absent_config\.value = foreign, must be given .* value=…"):
        _ = launch(None)[1] + 1
    assert cumae.take(tree / FILE, "Positions.later", value=3)(None) == (46, 3)


def test_what_is_static_in_a_class_is_taken_as_it_is(tree: Path) -> None:
    kernel = cumae.take(tree / FILE, "Positions.kernel")
    starts, contexts = (torch.tensor(v, dtype=torch.int32, device=DEVICE) for v in ([0, 2], [5]))
    positions = torch.zeros(2, dtype=torch.int64, device=DEVICE)
    kernel[(1,)](starts, contexts, positions, TILE=4)
    assert positions.tolist() == [5, 6]


def test_imports_that_go_round_in_a_circle_are_followed(tree: Path) -> None:
    even = cumae.take(tree / "eng/loop/a.py", "even")
    assert (even(10), even(7)) == (True, False)


def test_a_foreign_import_that_may_fail_fails(tree: Path) -> None:
    assert cumae.take(tree / "eng/kernels/constants.py", "WIDTH") == 4
    assert cumae.take(tree / "eng/kernels/constants.py", "WIDTH", WIDTH=16) == 16


@interpreted
def test_tensors_for_a_gpu_lie_on_the_cpu_where_kernels_are_interpreted(tree: Path) -> None:
    filled, compiled = cumae.take(tree / FILE, "filled", "compiled")
    assert filled(2).tolist() == [1, 1]
    assert compiled(torch.tensor(3)).item() == 3


def test_nothing_is_rewritten_where_kernels_are_compiled(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a GPU, where kernels are compiled to be read, tensors are on the CPU."""
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    for there in (True, False):
        monkeypatch.setattr(
            import_module("cumae.properties.taking.take"), "has_gpu", lambda there=there: there
        )
        code = cumae.take(tree / FILE, "filled").__code__
        assert ("cuda" in code.co_consts + code.co_names) == there


def test_what_a_platform_says_is_false_unless_it_is_given(tree: Path) -> None:
    special = SimpleNamespace(is_special=lambda: True)
    assert cumae.take(tree / FILE, "filled", current=special)(1) is None


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Position", r"names = 'Position', must be defined in .*positions\.py, which has Positions"),
        ("Other.later", r"names = 'Other\.later', must be defined in .*, which has Positions\.later"),
        ("Positions.absent", r"names = 'Positions\.absent', must be defined in "),
        ("BAD", r"positions\.py:\d+ cannot be defined: TypeError: object of type 'int' has no len"),
    ],
)
def test_a_name_that_cannot_be_taken_is_told(tree: Path, name: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        cumae.take(tree / FILE, name)


def test_a_name_that_is_defined_under_a_condition_is_told_with_it(tmp_path: Path) -> None:
    file = tmp_path / "ops.py"
    file.write_text(
        "from engine import platform\n\nif platform.is_rocm():\n    def gather():\n        return 7\n"
    )
    with pytest.raises(ValueError, match=r"line 3 defines it only if platform\.is_rocm\(\); pass values"):
        cumae.take(file, "gather")
    rocm = SimpleNamespace(is_rocm=lambda: True)
    assert cumae.take(file, "gather", platform=rocm)() == 7


def test_a_class_that_cannot_be_defined_is_told_with_its_methods(tmp_path: Path) -> None:
    file = tmp_path / "builder.py"
    file.write_text(
        "class Builder:\n    event = len(0)\n\n    def lens(self, n):\n        return n + self.more\n"
    )
    with pytest.raises(
        ValueError, match=r"TypeError: .*; one method needs less: take\(…, 'Builder\.METHOD'\)"
    ):
        cumae.take(file, "Builder")
    assert cumae.take(file, "Builder.lens")(SimpleNamespace(more=1), 2) == 3


def test_what_a_function_only_might_use_breaks_where_it_is_used(tree: Path) -> None:
    bad, one = cumae.take(tree / FILE, "uses_broken")()
    assert one == 1
    with pytest.raises(ValueError, match=r"BAD = positions\.py:\d+ cannot be defined: TypeError.* BAD=…"):
        _ = bad + 1
    with pytest.raises(NameError, match="undefined_here"):
        cumae.take(tree / FILE, "broken")()
    with pytest.raises(ValueError, match=r"absent_config\.Config\.size = foreign, must be given .* Config=…"):
        cumae.take(tree / FILE, "needs_config")(1)
    assert cumae.take(tree / FILE, "needs_config", Config=SimpleNamespace(size=2))(1) == 3


@pytest.mark.parametrize(
    ("inner", "said"),
    [
        ("", r"source = .*, must name a Python file in it"),
        ("eng/kernels", r"source = .*, must name a Python file in it"),
        ("eng/absent.py", r"source = .*absent\.py', must be a file"),
    ],
)
def test_a_source_that_is_no_file_is_told(tree: Path, wheel: Path, inner: str, said: str) -> None:
    for root in (tree, wheel):
        with pytest.raises(ValueError, match=said):
            cumae.take(root / inner, "filled")


def test_bad_calls_are_told(tree: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"names = \(\), must name definitions to take from positions\.py"):
        cumae.take(tree / FILE)
    with pytest.raises(ValueError, match=r"stubs = 'WITDH', must be a name in positions\.py or in a file"):
        cumae.take(tree / FILE, "filled", WITDH=3)
    (tmp_path / "fake.whl").write_text("no zip")
    with pytest.raises(ValueError, match=r"source = .*fake\.whl', must be a wheel"):
        cumae.take(tmp_path / "fake.whl" / "a.py", "f")
    (tmp_path / "a.txt").write_text("f = 1")
    with pytest.raises(ValueError, match="must be a Python file"):
        cumae.take(tmp_path / "a.txt", "f")


def test_taking_imports_neither_the_package_nor_torch(tree: Path) -> None:
    code = (
        "import sys, cumae; f = cumae.take(sys.argv[1], 'doubled'); "
        "assert f(2) == 4 and not {'torch', 'eng'} & set(sys.modules), sys.modules.keys()"
    )
    file = tree / "eng/kernels/double.py"
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    subprocess.run([sys.executable, "-c", code, str(file)], check=True, env=environment, timeout=120)


def test_a_fork_of_triton_under_another_name_is_triton(tmp_path: Path) -> None:
    file = tmp_path / "forked.py"
    file.write_text(
        "import eng_triton as triton\nimport eng_triton.language as tl\nfrom eng_triton import jit\n"
        "from eng_triton.language import gone\nfrom eng_triton.tools import tool\n"
        "@triton.jit\ndef kernel(x):\n    tl.store(x, 1)\n@jit\ndef other(x):\n    tl.store(x, 2)\n"
        "def uses():\n    return gone, tool\n"
    )
    kernel, other = cumae.take(file, "kernel", "other")
    written = torch.zeros(2, dtype=torch.int32, device=DEVICE)
    kernel[(1,)](written)
    other[(1,)](written[1:])
    assert written.tolist() == [1, 2]
    with pytest.raises(ValueError, match="eng_triton"):
        cumae.take(file, "uses")()[1].field.size + 1


def test_warnings_of_taken_code_are_not_printed_but_errors_are(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code = """
    import logging
    logger = logging.getLogger("an_engine")
    logger.propagate = False
    try:
        from an_engine import anything
        KNOWN = anything.value + 1
    except Exception:
        KNOWN = None
        logger.warning("no engine here")
        logger.error("a real one")

    def known():
        logger.warning("called")
        return KNOWN
    """
    (tmp_path / "engine.py").write_text(dedent(code))
    assert cumae.take(tmp_path / "engine.py", "known")() is None
    assert capfd.readouterr().err.splitlines() == ["a real one", "called"]

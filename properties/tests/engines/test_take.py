"""Code is taken by name out of a source tree that cannot be imported."""

import inspect
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import cumae
from cumae.properties.engines.adapter import Engine
from cumae.properties.engines.unpack import unpacked
from cumae.properties.running.device import prepare

Tensor = torch.Tensor
DEVICE = prepare("auto")
interpreted = pytest.mark.skipif(DEVICE == "cuda", reason="code is rewritten for the interpreter only")
SOURCE = {
    "eng/__init__.py": "raise RuntimeError('nobody imports the package')\n",
    "eng/triton_utils/__init__.py": """
        from typing import TYPE_CHECKING
        from eng.probe import HAS_TRITON
        if TYPE_CHECKING or HAS_TRITON:
            import triton
            import triton.language as tl
        else:
            triton = tl = None
        """,
    "eng/probe.py": "HAS_TRITON = bool(())\n",
    "eng/base.py": """
        from functools import wraps
        from abc import ABC
        from typing import Generic, TypeVar
        import absent_logger
        T = TypeVar("T")
        logger = absent_logger.get(__name__)
        def launcher(function):
            sign(function)
            @wraps(function)
            def launch(self, *args):
                logger.debug("launching")
                return self.run(*function(self, *args))
            return launch
        def sign(function):
            function.is_signed = True
        class Kernel(ABC, Generic[T]):
            def run(self, grid, arguments):
                self.kernel[grid](*arguments)
        """,
    "eng/kernels/positions.py": """
        from __future__ import annotations
        import torch
        from absent_config import Config, register
        from eng.base import Kernel, launcher
        from eng.triton_utils import tl, triton
        from . import constants
        from .constants import WIDTH
        from .stars import doubled
        from .platform import current

        @triton.jit
        def _at(starts, request):
            return tl.load(starts + request)

        @register("positions")
        class Positions(Kernel["Positions.Key"]):
            @staticmethod
            @triton.jit
            def kernel(starts, contexts, positions, TILE: tl.constexpr):
                request = tl.program_id(0)
                first, stop = _at(starts, request), _at(starts, request + 1)
                for start in range(first, stop, TILE):
                    row = start + tl.arange(0, TILE)
                    position = tl.load(contexts + request) + row - first
                    tl.store(positions + row, position, mask=row < stop)

            @launcher
            def __call__(self, count: int, starts: torch.Tensor, contexts: Config, positions):
                assert positions.is_cuda, "must be on a GPU"
                return (count,), (starts, contexts, positions, WIDTH)

            def later(self):
                from .constants import HIDDEN
                from absent_config import value
                return HIDDEN + constants.WIDTH + doubled(1), value

        def filled(count):
            if current.is_special():
                return None
            return torch.zeros(count, device="cuda") + torch.ones(count).cuda()

        def needs_config(count):
            return count + Config.size

        @torch.compile(dynamic=True)
        def compiled(x):
            return x + torch.cuda.current_device()

        def broken():
            return undefined_here

        def uses_broken():
            return BAD, 1

        BAD = len(7)
        TABLE = {}
        TABLE["one"] = 1
        TABLE.update(two=2)
        """,
    "eng/kernels/constants.py": """
        try:
            from absent_sizes import WIDTH
        except ImportError:
            WIDTH = 4
        HIDDEN = 40
        """,
    "eng/kernels/stars.py": "from .double import *\n",
    "eng/kernels/double.py": "def doubled(x):\n    return 2 * x\n",
    "eng/kernels/platform.py": "def __getattr__(name):\n    raise RuntimeError('only when running')\n",
    "eng/loop/a.py": """
        from eng.loop.b import odd
        def even(n):
            return True if n == 0 else odd(n - 1)
        """,
    "eng/loop/b.py": """
        from eng.loop.a import even
        def odd(n):
            return False if n == 0 else even(n - 1)
        """,
}
FILE = "eng/kernels/positions.py"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in SOURCE.items():
        file = tmp_path / "tree" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text))
    return tmp_path / "tree"


@pytest.fixture
def wheel(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file = tmp_path / "eng-1.0-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as archive:
        for name in SOURCE:
            archive.write(tree / name, name)
        archive.writestr("eng/_C.abi3.so", b"no python")
    return file


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


@interpreted
def test_what_code_asks_of_a_gpu_has_an_answer_on_the_cpu(tmp_path: Path) -> None:
    tree_of(
        tmp_path,
        asks="""
            import torch
            def halves(x, rank=0):
                side = torch.cuda.Stream(device=x.device)
                side.wait_stream(torch.cuda.current_stream())
                with torch.cuda.device(x.device), torch.cuda.stream(side):
                    done = torch.cuda.Event()
                    done.record(side)
                    y = x.to(f"cuda:{rank}", non_blocking=True) // 2
                done.synchronize()
                return y, torch.cuda.get_device_properties(x.device).multi_processor_count
            """,
    )
    y, count = cumae.take(tmp_path / "asks.py", "halves")(torch.tensor([6], device=DEVICE))
    assert y.tolist() == [3] and count > 0


def test_nothing_is_rewritten_where_kernels_are_compiled(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    filled = cumae.take(tree / FILE, "filled")
    assert "cuda" in filled.__code__.co_consts + filled.__code__.co_names


def test_what_a_platform_says_is_false_unless_it_is_given(tree: Path) -> None:
    special = SimpleNamespace(is_special=lambda: True)
    assert cumae.take(tree / FILE, "filled", current=special)(1) is None


@interpreted
def test_an_autotuned_kernel_keeps_one_configuration(tmp_path: Path) -> None:
    file = tmp_path / "tuned.py"
    file.write_text(
        dedent(
            """
            import triton
            import triton.language as tl
            CONFIGS = [triton.Config({"TILE": 4}), triton.Config({"TILE": 8})]
            @triton.autotune(CONFIGS, key=["count"])
            @triton.jit
            def fill(values, count, TILE: tl.constexpr):
                row = tl.program_id(0) * TILE + tl.arange(0, TILE)
                tl.store(values + row, 7, mask=row < count)
            """
        )
    )
    values = torch.zeros(3, dtype=torch.int32)
    cumae.take(file, "fill")[(1,)](values, 3)
    assert values.tolist() == [7, 7, 7]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Position", r"names = 'Position', must be defined in .*positions\.py, which has Positions"),
        ("Positions.absent", r"names = 'Positions\.absent', must be defined in "),
        ("BAD", r"positions\.py:\d+ cannot be defined: TypeError: object of type 'int' has no len"),
    ],
)
def test_a_name_that_cannot_be_taken_is_told(tree: Path, name: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        cumae.take(tree / FILE, name)


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


def tree_of(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(dedent(text))
    return folder


def test_a_function_imported_where_another_runs_finds_what_its_file_defines(tmp_path: Path) -> None:
    tree_of(
        tmp_path,
        first="""
            from . import second
            def inside(x):
                from .second import twice
                return twice(x)
            def through(x):
                return second.twice(x)
            """,
        second="""
            from absent import scale
            def twice(x):
                return double(x)
            def double(x):
                return x + FACTOR * x * (scale or 1)
            FACTOR = 1
            """,
    )
    for name in ("inside", "through"):
        assert cumae.take(tmp_path / "first.py", name)(3) == 6
        assert cumae.take(tmp_path / "first.py", name, scale=2)(3) == 9


def test_only_what_a_function_reads_is_defined(tmp_path: Path) -> None:
    tree_of(
        tmp_path,
        light="""
            from .heavy import Config, Table
            def size(config: Config, table: Table = None) -> "Config":
                return config if isinstance(config, int) else Table.size
            """,
        heavy="""
            class Config:
                sizes = [print("defined Config")]
            class Table:
                size = 7
            """,
    )
    size = cumae.take(tmp_path / "light.py", "size")
    assert "Config" not in size.__globals__ and size(3) == 3
    assert "Table" not in size.__globals__ and size(None) == 7
    assert "Config" not in size.__globals__


def test_what_a_compiler_gets_is_defined_before_it_reads(tmp_path: Path) -> None:
    tree_of(
        tmp_path,
        kernels="""
            import triton
            import triton.language as tl
            TILE = 4
            @triton.jit
            def row():
                return tl.program_id(0) * TILE
            def _fill(values):
                tl.store(values + row(), 7)
            fill = triton.jit(_fill)
            """,
    )
    fill = cumae.take(tmp_path / "kernels.py", "fill")
    assert {"tl", "row", "TILE"} <= set(fill.fn.__globals__)


def test_a_foreign_base_takes_the_arguments_of_its_classes_and_instances(tmp_path: Path) -> None:
    tree_of(
        tmp_path,
        structs="""
            import absent
            from absent import Mixin
            class Spec(absent.Struct, Mixin, frozen=True):
                name: str
                size: int = 4
            class Wide(Spec, Mixin):
                width: int
            SPECS = Wide(name="a"), Wide("a", 5, 6)
            """,
    )
    named, placed = cumae.take(tmp_path / "structs.py", "SPECS")
    assert (named.name, named.size) == ("a", 4)
    assert (placed.name, placed.size, placed.width) == ("a", 5, 6)


def test_what_torch_says_of_a_missing_value_names_what_to_give(tmp_path: Path) -> None:
    tree_of(
        tmp_path,
        sizes="""
            import torch
            from absent import platform
            LIMIT = torch.finfo(platform.dtype())
            def zeros():
                return torch.zeros(2, dtype=platform.dtype())
            """,
    )
    said = r"absent\.platform\.dtype\(…\) = foreign, must be given .*: take\(…, platform=…\)"
    with pytest.raises(ValueError, match=said):
        cumae.take(tmp_path / "sizes.py", "LIMIT")
    with pytest.raises(TypeError, match=said):
        cumae.take(tmp_path / "sizes.py", "zeros")()
    platform = SimpleNamespace(dtype=lambda: torch.float16)
    assert cumae.take(tmp_path / "sizes.py", "zeros", platform=platform)().dtype == torch.float16


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
    with pytest.raises(ValueError, match=r"names = \(\), must name what to take from positions\.py"):
        cumae.take(tree / FILE)
    with pytest.raises(ValueError, match=r"stubs = 'WITDH', must be a name in positions\.py or in what it"):
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


def test_an_adapter_says_where_a_function_is_and_what_it_promises(tree: Path, wheel: Path) -> None:
    engine = Engine("eng", "vllm", ("1.0",))

    @engine.adapts(FILE, "Positions", operation="position_ids", domain=cumae.Domain(captured=False))
    def positions_of_a_step(kind: Any) -> Callable[..., None]:
        kernel = kind()

        def launch(
            num_reqs: int, query_start_loc: Tensor, num_computed_tokens: Tensor, positions: Tensor
        ) -> None:
            positions.zero_()
            kernel(num_reqs, query_start_loc, num_computed_tokens, positions)

        return launch

    adapter = engine.adapters["positions_of_a_step"]
    for root in (tree, wheel):
        function = adapter.function(root)
        assert function.__qualname__ == "positions_of_a_step"
        domain = cumae.Domain(captured=False, min_requests=1)
        how: dict[str, Any] = {"domain": domain, "examples": 5, "checks": ["agrees"]}
        verdict = cumae.check(function, "position_ids", dialect=adapter.dialect, save_to=None, **how)
        assert verdict.ok, verdict.failure
    with pytest.raises(ValueError, match="adapter = 'positions_of_a_step', must be new: eng has it"):
        engine.adapts(FILE, "Positions", operation="position_ids", domain=cumae.Domain())(positions_of_a_step)


def test_every_shipped_adapter_names_its_place_and_can_be_bound() -> None:
    from importlib import import_module

    for name in ("fla", "flashinfer", "sglang", "vllm"):
        engine: Engine = import_module(f"cumae.properties.engines.{name}").ENGINE
        assert engine.adapters and engine.versions
        for adapter in engine.adapters.values():
            assert adapter.file.endswith(".py") and adapter.names
            if isinstance(adapter.operation, str):
                assert adapter.operation in cumae.OPERATIONS

"""Which parts of taken code are defined, when, and what stands for the device."""

from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace

import pytest
import torch

import cumae
from cumae.properties.interpreter.hooks import watching
from cumae.properties.running.device import prepare

DEVICE = prepare("auto")
interpreted = pytest.mark.skipif(DEVICE == "cuda", reason="code is rewritten for the interpreter only")


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


@interpreted
def test_the_number_of_the_current_gpu_is_a_device_too(tmp_path: Path) -> None:
    tree_of(
        tmp_path,
        makes="""
            import torch
            def made(names):
                current = torch.cuda.current_device()
                on_it = torch.zeros(2, device=current).to(f"cuda:{current}").to(torch.device(current))
                return on_it, names[current], current == 0 and int(current) == 0, {0: "first"}[current]
            """,
    )
    on_it, name, is_first, found = cumae.take(tmp_path / "makes.py", "made")(["a", "b"])
    assert (on_it.tolist(), name, is_first, found) == ([0.0, 0.0], "a", True, "first")


@interpreted
def test_memory_is_not_pinned_on_the_cpu(tmp_path: Path) -> None:
    tree_of(
        tmp_path,
        pins="""
            import torch
            PINNED = True
            def copied(x, pin_memory=PINNED):
                options = {"dtype": x.dtype, "pin_memory": pin_memory}
                a = torch.cat([torch.zeros(1, **options), x.new_empty(0, **options)])
                return torch.cat([a, x.new_empty(2, pin_memory=pin_memory).fill_(3).pin_memory(), x])
            """,
    )
    assert cumae.take(tmp_path / "pins.py", "copied")(torch.tensor([6])).tolist() == [0, 3, 3, 6]


@interpreted
def test_an_autotuned_kernel_has_its_first_configuration_outside_a_test(tmp_path: Path) -> None:
    copied = cumae.take(autotuned(tmp_path), "copied")
    values = torch.zeros(5, dtype=torch.int32)
    copied(torch.full((5,), 7, dtype=torch.int32), values)
    assert values.tolist() == [7, 7, 7, 7, 0]


@interpreted
def test_an_autotuned_kernel_may_have_any_configuration_in_a_test(tmp_path: Path) -> None:
    copied = cumae.take(autotuned(tmp_path), "copied")
    tiles = set()
    for count in range(8, 16):
        values = torch.zeros(16, dtype=torch.int32)
        with watching():
            copied(torch.full((count,), 7, dtype=torch.int32), values)
        tiles.add(values.count_nonzero().item())
    assert tiles == {4, 8}


def autotuned(folder: Path) -> Path:
    """Return a file with an autotuned kernel that copies 4 or 8 values."""
    tree_of(
        folder,
        tuned="""
            import triton
            import triton.language as tl
            CONFIGS = [triton.Config({"TILE": 4}), triton.Config({"TILE": 8})]
            @triton.autotune(CONFIGS, key=["count"])
            @triton.jit
            def copy(source, values, count, TILE: tl.constexpr):
                row = tl.arange(0, TILE)
                tl.store(values + row, tl.load(source + row, mask=row < count), mask=row < count)
            def copied(source, values):
                copy[(1,)](source, values, len(source))
            """,
    )
    return folder / "tuned.py"


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


def test_a_stub_in_place_of_keyword_arguments_names_what_to_give(tmp_path: Path) -> None:
    tree_of(
        tmp_path,
        launches="""
            from absent import options
            def launched(x):
                return dict(x=x, **options(x))
            """,
    )
    said = r"^absent\.options\(…\) = foreign, must be given .*: take\(…, options=…\)$"
    launched = cumae.take(tmp_path / "launches.py", "launched")

    def launches(context_lens: torch.Tensor, position_ids: torch.Tensor) -> None:
        position_ids.copy_(launched(context_lens)["x"])

    with pytest.raises(ValueError, match=said):
        cumae.check(launches, "position_ids", examples=5, save_to=None)
    given = cumae.take(tmp_path / "launches.py", "launched", options=lambda x: {"y": x + 1})
    assert given(1) == {"x": 1, "y": 2}


def test_a_name_of_the_file_comes_before_the_built_in_one(tmp_path: Path) -> None:
    tree_of(
        tmp_path,
        sums="""
            from .own import sum
            def total(x):
                return sum(x), max(x)
            def max(x):
                return x
            """,
        own="""
            def sum(x):
                return -x
            """,
    )
    assert cumae.take(tmp_path / "sums.py", "total")(3) == (-3, 3)


def test_the_triton_of_a_module_that_is_not_there_is_triton(tmp_path: Path) -> None:
    tree_of(
        tmp_path,
        kernels="""
            from engine.triton_utils import HAS_TRITON, tl, triton
            @triton.jit
            def kernel(out):
                tl.store(out + tl.program_id(0), 7)
            def fill(out):
                kernel[(len(out),)](out)
            """,
    )
    out = torch.zeros(3, dtype=torch.int32, device=DEVICE)
    cumae.take(tmp_path / "kernels.py", "fill")(out)
    assert out.tolist() == [7, 7, 7]

"""The interpreter remembers exactly the values that it would work out."""

from typing import Any

import pytest
import torch
import triton.language as tl

from cumae.properties.interpreter.hooks import watching
from cumae.properties.interpreter.remembered import remembering
from cumae.properties.running.device import prepare
from cumae.properties.tests.functions import covered

if prepare("auto") == "cuda":
    pytest.skip("nothing is interpreted where there is a GPU", allow_module_level=True)

from triton.runtime import interpreter

TYPES = (tl.int1, tl.int8, tl.uint16, tl.int32, tl.int64, tl.float16, tl.bfloat16, tl.float32, tl.float8e4nv)
POINTERS = (tl.pointer_type(tl.int32), tl.pointer_type(tl.float32))
SHAPES = ((), (1,), (4,), (8,), (2, 4), (4, 2))


def of_shape(element: Any, shape: tuple[int, ...]) -> Any:
    return tl.block_type(element, list(shape)) if shape else element


def content(made: Any) -> dict[str, str]:
    return {name: str(value) for name, value in vars(made).items()}


@pytest.mark.parametrize("element", [*TYPES, *POINTERS], ids=str)
def test_dtypes_tensors_and_blocks_are_those_of_the_interpreter(element: Any) -> None:
    patches = remembering(interpreter)
    np_dtype = patches[interpreter, "_get_np_dtype"]
    init_of_block = patches[tl.core.block_type, "__init__"]
    init_of_tensor = patches[tl.core.tensor, "__init__"]
    for shape in (*SHAPES, *SHAPES):  # the second time, all is remembered
        kind = of_shape(element, shape)
        assert np_dtype(kind) == interpreter._get_np_dtype(kind)
        right, remembered = tl.core.tensor("handle", kind), object.__new__(tl.core.tensor)
        init_of_tensor(remembered, "handle", kind)
        assert content(remembered) == content(right)
        if shape:
            block = object.__new__(tl.core.block_type)
            init_of_block(block, element, [tl.constexpr(size) for size in shape])
            assert content(block) == content(kind)
            assert block == kind


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.bfloat16, torch.uint8, torch.bool])
def test_arguments_are_those_of_the_interpreter(dtype: torch.dtype) -> None:
    convert = remembering(interpreter)[interpreter, "_implicit_cvt"]
    for shape in ((3,), (0,), (2, 5)):
        argument = torch.zeros(shape, dtype=dtype)
        right, remembered = interpreter._implicit_cvt(argument), convert(argument)
        assert (remembered.type, remembered.handle.dtype) == (right.type, right.handle.dtype)
        assert remembered.handle.data.dtype == right.handle.data.dtype
        assert remembered.handle.data.tolist() == right.handle.data.tolist() == [argument.data_ptr()]
    assert convert(2**40).handle.data.tolist() == [2**40]
    condition = convert(True)
    assert (condition.type, condition.handle.data.tolist()) == (tl.int1, [True])


def test_a_kernel_runs_the_same_inside_outside_and_nested() -> None:
    for _ in range(2):
        found = [torch.full((16,), -7) for _ in range(4)]
        covered.launch(found[0], 13, False)
        with watching():
            covered.launch(found[1], 13, False)
            with watching():
                covered.launch(found[2], 13, False)
            covered.launch(found[3], 13, False)
        assert [out.tolist() for out in found] == [[*range(13), -7, -7, -7]] * 4
    with pytest.raises(ValueError, match=r"Did you forget to add @triton\.jit"):
        tl.arange(0, 4)


def test_a_constant_is_also_one_whose_annotation_stands_in_quotes() -> None:
    def kernel(out: Any, count: Any, BLOCK: Any, TILE: Any) -> None: ...

    # As `BLOCK: "tl.constexpr"` is kept where annotations are not evaluated.
    kernel.__annotations__ = {"count": "'tl.tensor'", "BLOCK": "'tl.constexpr'", "TILE": tl.constexpr}
    init = remembering(interpreter)[interpreter.GridExecutor, "__init__"]
    for _ in range(2):  # the second time, it is remembered
        executor = object.__new__(interpreter.GridExecutor)
        init(executor, kernel, ["out", "count", "BLOCK", "TILE"], (1,))
        assert executor.constexprs == ["BLOCK", "TILE"]

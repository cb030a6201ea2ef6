"""Operators by NumPy answer as the interpreter's own: same bits and types for operands of any two types."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
import triton.language as tl

from cumae.properties.interpreter import operators
from cumae.properties.interpreter.hooks import watching
from cumae.properties.running.device import prepare
from cumae.properties.tests.functions import covered

if prepare("auto") == "cuda":
    pytest.skip("nothing is interpreted where there is a GPU", allow_module_level=True)

from triton.runtime import interpreter

TYPES = (tl.int1, tl.int8, tl.int32, tl.uint32, tl.int64, tl.float16)
SHAPES = ((), (4,), (4, 1), (1, 4))


def made(dtype: Any, shape: tuple[int, ...], seed: int) -> Any:
    """Return a tensor of any values, the extremes of its type among them."""
    kind = interpreter._get_np_dtype(dtype)
    generator = np.random.default_rng(seed)
    if np.issubdtype(kind, np.integer):
        least, most = (int(bound) for bound in (np.iinfo(kind).min, np.iinfo(kind).max))
        drawn = generator.choice(np.array([least, most, 0, 1, most // 3], dtype=kind), shape or (1,))
    else:
        drawn = generator.choice(np.array([0, 1], dtype=kind), shape or (1,))
    block = tl.block_type(dtype, list(shape)) if shape else dtype
    return tl.core.tensor(interpreter.TensorHandle(drawn, dtype), block)


def answered(apply: Any, *operands: Any) -> Any:
    """Return what an operator answers: the type, the dtypes and the bits, or the error."""
    try:
        with np.errstate(all="ignore"):
            found = apply(*operands)
    except Exception as error:
        return type(error).__name__
    if not isinstance(found, tl.core.tensor):
        return found
    data = found.handle.data
    sizes = [getattr(size, "value", size) for size in found.shape]
    return str(found.type), str(found.handle.dtype), str(data.dtype), data.shape, sizes, str(data.tolist())


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Yield a function that applies an operator by NumPy where that is learned, and as Triton has it."""
    monkeypatch.setattr(operators, "_known", {})
    scope = interpreter._patch_lang(interpreter.InterpretedFunction(_uses_triton).fn)
    originals = {name: vars(tl.core.tensor)[name] for name in operators.OPERATORS}
    quick = {name: operators.by_numpy(name, original) for name, original in originals.items()}
    functions = {name: vars(tl)[name] for name in operators.FUNCTIONS}
    quick |= {name: operators.function_by_numpy(name, original) for name, original in functions.items()}
    quick["to"] = operators.cast_by_numpy(tl.core.tensor.to)
    originals |= functions | {"to": tl.core.tensor.to}
    yield lambda name, *given: (answered(quick[name], *given), answered(originals[name], *given))
    scope.restore()


def _uses_triton() -> Any:
    return tl


@pytest.mark.parametrize("name", operators.OPERATORS)
def test_integers_conditions_and_numbers_are_the_same(name: str, both: Any) -> None:
    """The first answer of two types is Triton's; those after it are compared here, wrapping ones too."""
    for dtype, other in product(TYPES, TYPES):
        for shape, another in product(SHAPES, SHAPES):
            for seed in range(2):
                quick, slow = both(name, made(dtype, shape, seed), made(other, another, seed + 7))
                assert quick == slow, (dtype, other, shape, another, seed)
    for dtype, shape in product(TYPES, SHAPES):
        for number in (0, 1, -1, 5, 2**31 - 1, -(2**31), 2**31, 2**40, True, 0.5, tl.constexpr(3)):
            for seed in range(2):
                quick, slow = both(name, made(dtype, shape, seed), number)
                assert quick == slow, (dtype, shape, number)
    assert sum(known.by_numpy for known in operators._known.values()) > 2


def small(dtype: Any, shape: tuple[int, ...], seed: int) -> Any:
    """Return a tensor of few values, by which a division is mostly one that NumPy may do."""
    tensor = made(dtype, shape, seed)
    drawn = np.random.default_rng(seed).integers(1, 9, tensor.handle.data.shape)
    tensor.handle.data = drawn.astype(tensor.handle.data.dtype)
    return tensor


@pytest.mark.parametrize("name", ["__floordiv__", "__mod__", "__lshift__", "__rshift__"])
def test_small_divisors_and_shifts_are_the_same(name: str, both: Any) -> None:
    """Also where a later operand of the same type is negative, and is rounded towards zero."""
    for dtype, shape, another in product((tl.int32, tl.uint32, tl.int64), SHAPES, SHAPES):
        for seed, (here, there) in enumerate(product((small, made), repeat=2)):
            quick, slow = both(name, here(dtype, shape, seed), there(dtype, another, seed + 7))
            assert quick == slow, (dtype, shape, another, seed)
        for number in (1, 3, 31, -1, 0):
            for seed, here in enumerate((small, made)):
                quick, slow = both(name, here(dtype, shape, seed), number)
                assert quick == slow, (dtype, shape, number)
    assert sum(known.by_numpy for known in operators._known.values()) > 2


@pytest.mark.parametrize("name", ["minimum", "maximum"])
def test_the_lesser_and_the_greater_are_the_same(name: str, both: Any) -> None:
    for dtype, other in product(TYPES, TYPES):
        for shape, another, seed in product(SHAPES, SHAPES, range(2)):
            quick, slow = both(name, made(dtype, shape, seed), made(other, another, seed + 7))
            assert quick == slow, (dtype, other, shape, another, seed)
    for dtype, shape, seed in product(TYPES, SHAPES, range(2)):
        for number in (0, -1, 5, 2**31 - 1, 2**31, 2**40, 0.5, tl.constexpr(3)):
            quick, slow = both(name, made(dtype, shape, seed), number)
            assert quick == slow, (dtype, shape, number)
    assert sum(known.by_numpy for known in operators._known.values()) > 2


@pytest.mark.filterwarnings("ignore:tl.where with a non-boolean condition")
def test_choices_between_blocks_and_numbers_are_the_same(both: Any) -> None:
    numbers = (0, -1, 2**31 - 1, 2**40, 0.5, tl.constexpr(3))
    for condition, shape, seed in product((tl.int1, tl.int32), ((), (4,), (4, 1)), range(2)):
        values = [made(*one, seed + i) for i, one in enumerate(product(TYPES, SHAPES))] + [*numbers]
        for x, y in product(values, values):
            given = made(condition, shape, seed), x, y
            quick, slow = both("where", *given)
            assert quick == slow, given
    assert sum(known.by_numpy for known in operators._known.values()) > 2


def test_casts_are_the_same(both: Any) -> None:
    for dtype, other, shape, seed in product(TYPES, (*TYPES, tl.uint8), SHAPES, range(2)):
        for wanted in (other, tl.constexpr(other)):
            quick, slow = both("to", made(dtype, shape, seed), wanted)
            assert quick == slow, (dtype, other, shape)
        quick, slow = both("to", made(tl.int64, shape, seed), tl.pointer_type(other))
        assert quick == slow
    assert sum(known.by_numpy for known in operators._known.values()) > 2


@pytest.mark.parametrize("name", operators.OPERATORS)
@pytest.mark.parametrize("element", [tl.int1, tl.int64, tl.bfloat16], ids=str)
def test_pointers_and_offsets_are_the_same(name: str, element: Any, both: Any) -> None:
    pointer_type = tl.pointer_type(element)
    for shape, another, offset in product(SHAPES, SHAPES, (tl.int32, tl.int64, tl.uint32, tl.int8)):
        for seed in range(2):
            addresses = np.full(shape or (1,), 2**40 + 64 * seed, dtype=np.uint64)
            block = tl.block_type(pointer_type, list(shape)) if shape else pointer_type
            pointer = tl.core.tensor(interpreter.TensorHandle(addresses, pointer_type), block)
            quick, slow = both(name, pointer, made(offset, another, seed))
            assert quick == slow, (shape, another, offset)
    for number in (0, 3, -3, 2**40):
        quick, slow = both(name, pointer, number)
        assert quick == slow


def test_a_kernel_uses_them_and_asserted_overflows_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    for overflow in (False, True):
        monkeypatch.setattr(operators, "_known", {})
        out = torch.full((16,), -7)
        with watching(overflow=overflow):
            for _ in range(2):
                covered.launch(out, 13, False)
        assert out.tolist() == [*range(13), -7, -7, -7]
        assert bool(operators._known) != overflow

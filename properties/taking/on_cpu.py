"""Rewriting of GPU code for Triton's interpreter, with tensors on the CPU."""

import ast
import operator
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from cumae.properties.taking.stub import Stub

STAND_INS = {"cuda": "__cumae_cuda__", "compile": "__cumae_compile__"}
"""Attributes of torch that are replaced, and the global names that stand for them."""


class Stream:
    """Stands for a stream or an event on which all work is done."""

    cuda_stream = 0
    query = staticmethod(lambda: True)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Accept the arguments of a stream."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: None


class CurrentDevice(str):
    """Stands for the number of the current GPU: it is 0, and torch takes it for the CPU."""

    def __new__(cls) -> "CurrentDevice":
        """Return what torch reads as the name of a device."""
        return super().__new__(cls, "cpu")

    def __index__(self) -> int:
        return 0

    __int__ = __hash__ = __index__

    def __format__(self, spec: str) -> str:
        """Return 0 as text."""
        return format(0, spec)

    def __repr__(self) -> str:
        return "0"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return other == 0


for _name in ("add", "sub", "mul", "floordiv", "mod"):
    _of = getattr(operator, _name)
    setattr(CurrentDevice, f"__{_name}__", lambda self, other, of=_of: of(0, other))
    setattr(CurrentDevice, f"__r{_name}__", lambda self, other, of=_of: of(other, 0))


class Cuda:
    """Stands for ``torch.cuda``: one device that is always there and never waits."""

    is_available = staticmethod(lambda: True)
    device_count = staticmethod(lambda: 1)
    current_device = staticmethod(CurrentDevice)
    set_device = staticmethod(lambda device: None)
    synchronize = staticmethod(lambda device=None: None)
    device = staticmethod(lambda device: nullcontext())
    device_of = staticmethod(lambda tensor: nullcontext())
    stream = staticmethod(lambda stream: nullcontext())
    current_stream = staticmethod(lambda device=None: Stream())
    Stream, Event = Stream, Stream
    empty_cache = staticmethod(lambda: None)
    get_device_capability = staticmethod(lambda device=None: (9, 0))
    get_device_name = staticmethod(lambda device=None: "CPU")
    get_device_properties = staticmethod(
        lambda device=None: SimpleNamespace(name="CPU", major=9, minor=0, multi_processor_count=132)
    )
    is_current_stream_capturing = staticmethod(lambda: False)

    def __getattr__(self, name: str) -> Any:
        import torch

        return getattr(torch.cuda, name)


def _as_it_is(function: Any = None, **kwargs: Any) -> Any:
    """Replace ``torch.compile``, with or without arguments, by the uncompiled function."""
    return function if callable(function) else _as_it_is


def stand_ins() -> dict[str, Callable[..., Any] | Cuda]:
    """Return the values of the names of ``STAND_INS`` in rewritten code."""
    return {STAND_INS["cuda"]: Cuda(), STAND_INS["compile"]: _as_it_is}


class OnCpu(ast.NodeTransformer):
    """Makes ``x.is_cuda`` true, ``"cuda"`` the CPU, and ``torch.cuda`` a stand-in.

    ``x.cuda()`` and ``x.pin_memory()`` are x, and torch makes no pinned tensors.
    """

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        """Turn ``"cuda"`` and ``"cuda:…"`` into the CPU."""
        if isinstance(node.value, str) and node.value.partition(":")[0] == "cuda":
            return ast.copy_location(ast.Constant("cpu" + node.value[4:]), node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Replace a move of a tensor to the GPU or to pinned memory by the tensor; let torch pin none."""
        if isinstance(node.func, ast.Attribute) and node.func.attr == "is_cuda":  # a method of another object
            node.func.value = self.visit(node.func.value)
            return node
        self.generic_visit(node)
        if not isinstance(node.func, ast.Attribute):
            return node
        makes = _is_torch(node.func.value) or node.func.attr.startswith("new_")
        for keyword in node.keywords if makes else ():
            if keyword.arg == "pin_memory":
                keyword.value = ast.copy_location(ast.Constant(False), keyword.value)
            elif keyword.arg is None:
                keyword.value = _without_pin_memory(keyword.value)
        is_pinned = node.func.attr == "pin_memory" and not (node.args or node.keywords)
        return node.func.value if node.func.attr == "cuda" or is_pinned else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """Replace attributes that exist only on a GPU."""
        if node.attr == "is_cuda" and isinstance(node.ctx, ast.Load):
            return ast.copy_location(ast.Constant(True), node)
        if _is_torch(node.value) and node.attr in STAND_INS and isinstance(node.ctx, ast.Load):
            return ast.copy_location(ast.Name(STAND_INS[node.attr], ast.Load()), node)
        self.generic_visit(node)
        return node


def _is_torch(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "torch"


def _without_pin_memory(options: ast.expr) -> ast.expr:
    """Return an expression of a mapping without its entry for pinned memory."""
    rest = ast.parse(
        "{name: value for name, value in OPTIONS.items() if name != 'pin_memory'}", mode="eval"
    ).body
    rest.generators[0].iter.func.value = options  # type: ignore[attr-defined]
    return ast.fix_missing_locations(ast.copy_location(rest, options))


def tune_without_a_clock(value: Any) -> None:
    """Let a plain call of an autotuned kernel choose its first configuration: no clock tells the fastest."""
    autotuner = import_module("triton.runtime.autotuner").Autotuner
    for part in (value, *(vars(value).values() if isinstance(value, type) else ())):
        part = getattr(part, "__func__", part)
        while part is not None and not isinstance(part, Stub):
            if isinstance(part, autotuner):
                part.do_bench, part.cache_results = _same_times, False
            part = vars(part).get("fn") if hasattr(part, "__dict__") else None


def _same_times(call: Any, quantiles: Sequence[float]) -> list[float]:
    return [0.0 for _ in quantiles]

"""Hooks in Triton's interpreter: record accesses and assertions, and permute the program order."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np

from cumae.properties.interpreter import (
    blocks,
    coverage,
    hooked,
    logic,
    loops,
    marking,
    narrow_numbers,
    reductions,
    tuning,
)
from cumae.properties.interpreter.accesses import ACCESSES, access_patches, meeting_patches
from cumae.properties.interpreter.remembered import PatchOnce, remembering
from cumae.properties.interpreter.threads import Threads
from cumae.properties.interpreter.turns import Turns
from cumae.properties.interpreter.watch import Current, Watch

_CASTS = ("create_bitcast", "create_int_to_ptr", "create_ptr_to_int")
"""The interpreter has one method under all three names: each name is hooked."""
_NAMES = ("_patch_lang", "_LangPatchScope", "_get_np_dtype", "_implicit_cvt", "interpreter_builder")
_SPLATS = ("create_splat", "create_unsplat")
_OTHERS = (*_CASTS, *_SPLATS, "create_assert", "create_make_range", "set_grid_idx", "set_grid_dim")
_REWRITTEN: dict[Any, Any] = {}
"""Rewritten kernels, kept apart: kernels that ran before the hooks have Python's operators."""


@contextmanager
def watching(
    order_seed: int | None = None,
    *,
    races: bool = False,
    overflow: bool = False,
    turns: Turns | None = None,
    threads: Threads | None = None,
    filled: Collection[str] = (),
) -> Iterator[Watch]:
    """Watch the interpreter's loads, stores, atomics and assertions; a seed permutes the programs.

    Lanes outside every tensor argument are recorded and masked off, so a stray access is a finding
    and not a crash. Failed assertions are recorded too. As in compiled code, arguments have annotated
    widths, scalar conditions stay boolean in masks, ``and``, ``or``, ``not``, ``min`` and ``max`` work by
    element, loops count in tensors, and bf16 and fp8 numbers are rounded to the nearest. The sizes
    of the arguments choose the configuration of an autotuned kernel: the interpreter has no clock.
    ``races``: keep accesses and search them for races. ``overflow``: assert that arithmetic of less than
    64 bits does not wrap; takes a third to two thirds more time. ``turns``: run the programs of a launch
    side by side, in these turns. ``threads``: how the threads of a program see memory until they meet.
    ``filled``: lines of masked loads without ``other``, whose undefined lanes then hold a number that is not
    0. Raises ``ValueError`` if this Triton's interpreter lacks a hooked method.
    """
    watch = Watch(seeks_races=races, turns=turns, threads=threads, order_seed=order_seed, filled=filled)
    with np.errstate(all="ignore"), _hooked(Kind(overflow, threads is not None)) as hooks:
        hooks.now.watch = watch
        try:
            yield watch
            watch.close()
        finally:
            hooks.now.watch = hooks.idle


@contextmanager
def keeping_hooks() -> Iterator[None]:
    """Let the hooks of one watched call stay for the next, while the context is open.

    To set and undo them takes a quarter of a call with a small launch, most of it because Python then has to
    look up anew what it knew about the classes.
    """
    global _KEPT
    before, _KEPT = _KEPT, _Kept()
    try:
        yield
    finally:
        _KEPT.remove()
        _KEPT = before


class Kind(NamedTuple):
    """Work of hooks beside the usual: check arithmetic, let threads meet."""

    overflow: bool
    threads: bool


class _Hooks:
    """Hooks that are set until they are removed.

    ``now``: the watch that they report to; ``idle``: the one between two calls.
    """

    def __init__(self, kind: Kind) -> None:
        from triton.runtime import autotuner, interpreter

        require_hooks()
        builder, executor = interpreter.InterpreterBuilder, interpreter.GridExecutor
        self.idle = Watch()
        now = self.now = Current(self.idle)
        patches: dict[tuple[Any, str], Any] = dict(access_patches(builder, now))
        if kind.threads:
            patches |= meeting_patches(builder, interpreter, now)
        patches |= remembering(interpreter)
        patches |= narrow_numbers.patches(interpreter) | reductions.patches(interpreter)
        patches |= blocks.patches(interpreter, patches)
        patches |= {(builder, name): hooked.cast(getattr(builder, name), now) for name in _CASTS}
        patches |= {(builder, name): hooked.splat(getattr(builder, name)) for name in _SPLATS}
        options = interpreter.InterpreterOptions(debug=True, sanitize_overflow=kind.overflow)
        is_nested = isinstance(interpreter._patch_lang, PatchOnce)
        to_host = executor._init_args_hst if is_nested else hooked.copied(executor._init_args_hst)
        self._language = PatchOnce(interpreter._patch_lang, by_numpy=not kind.overflow)
        rewriter = interpreter.FunctionRewriter
        rewritten = {logic.NAME: logic.by_element, loops.NAME: loops.in_tensors}
        for name, function in (rewritten | coverage.MARKS).items():
            setattr(interpreter, name, function)
        patches |= {
            (builder, "create_assert"): hooked.asserted(now),
            (builder, "set_grid_idx"): hooked.reordered(builder.set_grid_idx, now),
            (builder, "set_grid_dim"): hooked.counted(builder.set_grid_dim, now),
            (interpreter.interpreter_builder, "options"): options,
            (interpreter.TensorHandle, "set_attr"): hooked.hinted(interpreter.TensorHandle.set_attr, now),
            (executor, "_init_args_hst"): hooked.collecting(to_host, now),
            (executor, "_restore_args_dev"): hooked.restored(executor._restore_args_dev),
            (executor, "__call__"): hooked.launching(executor.__call__, now),
            (interpreter, "_patch_lang"): self._language,
            (autotuner.Autotuner, "run"): tuning.tuning(autotuner.Autotuner.run, now),
            (interpreter.InterpretedFunction, "run"): hooked.running(
                interpreter.InterpretedFunction.run, now
            ),
            (interpreter.InterpretedFunction, "rewritten_fn"): _REWRITTEN,
        }
        if not is_nested:
            marked = marking.rewriter(loops.Rewriter(logic.Rewriter(rewriter.ast_transformer)))
            patches[rewriter, "ast_transformer"] = marked
        patches |= _early_launches(now) | hooked.libraries()
        self._originals = {place: getattr(*place) for place in patches}
        for (owner, name), patch in patches.items():
            setattr(owner, name, patch)

    def remove(self) -> None:
        """Put everything back as it was."""
        self._language.restore_all()
        for (owner, name), original in self._originals.items():
            setattr(owner, name, original)


class _Kept:
    """The hooks that stay between calls, if there are any, and whether a call uses them."""

    def __init__(self) -> None:
        self.kind: Kind | None = None
        self.is_used = False
        self._hooks: _Hooks | None = None

    def hooks(self, kind: Kind) -> _Hooks:
        """Return hooks of this kind."""
        if self._hooks is None or kind != self.kind:
            self.remove()
            self._hooks, self.kind = _Hooks(kind), kind
        return self._hooks

    def remove(self) -> None:
        """Remove the hooks."""
        if self._hooks is not None:
            self._hooks.remove()
            self._hooks = None


_KEPT: _Kept | None = None


@contextmanager
def _hooked(kind: Kind) -> Iterator[_Hooks]:
    """Set hooks, for this call alone if none are kept or a call within another one asks for them."""
    kept = _KEPT
    if kept is None or kept.is_used:
        hooks = _Hooks(kind)
        try:
            yield hooks
        finally:
            hooks.remove()
        return
    hooks, kept.is_used = kept.hooks(kind), True
    try:
        yield hooks
    finally:
        kept.is_used = False


def _early_launches(now: Current) -> dict[tuple[Any, str], Any]:
    """Return what a kernel may call that begins early: the interpreter has neither of the two."""
    from triton.language.extra import cuda

    calls = {"gdc_wait": hooked.waiting(now), "gdc_launch_dependents": lambda: None}
    modules = cuda, getattr(cuda, "gdc", cuda)
    return {(own, name): call for own in modules for name, call in calls.items() if hasattr(own, name)}


def require_hooks() -> None:
    """Raise ``ValueError`` with the names that the hooks need and this release of Triton lacks."""
    from triton.runtime import interpreter

    needed = [
        ("InterpreterBuilder", name)
        for name in (*ACCESSES, *narrow_numbers.METHODS, *blocks.METHODS, *_OTHERS)
    ]
    needed += [("GridExecutor", name) for name in ("_init_args_hst", "_restore_args_dev")]
    needed += [("ReduceScanOpInterface", "apply"), ("ReduceOps", "apply_impl"), ("ScanOps", "apply_impl")]
    needed += [("ReduceOps", "generic_reduce"), ("ScanOps", "generic_scan")]
    needed += [("InterpreterOptions", "debug"), ("TensorHandle", "set_attr")]
    needed += [("FunctionRewriter", "ast_transformer"), ("InterpretedFunction", "rewritten_fn")]
    missing = [f"{owner}.{name}" for owner, name in needed if not hasattr(_part(interpreter, owner), name)]
    missing += [name for name in _NAMES if not hasattr(interpreter, name)]
    if missing:
        rule = f"have {', '.join(missing)} in its interpreter, as 3.6 to 3.9 do"
        raise ValueError(f"triton = {version('triton')!r}, must {rule}")


def _part(interpreter: Any, name: str) -> Any:
    return getattr(interpreter, name, None)

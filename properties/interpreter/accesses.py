"""Hooks around the interpreter's loads, stores and atomics: bounds, records, turns and threads."""

import sys
from collections.abc import Callable, Iterator
from typing import Any

from cumae.properties.interpreter.memory_call import MemoryCall, Method
from cumae.properties.interpreter.watch import Current

ACCESSES = {
    "create_masked_load": ("load", 0, None, 1),
    "create_masked_store": ("store", 0, 1, 2),
    "create_atomic_rmw": ("atomic", 1, 2, 3),
    "create_atomic_cas": ("exchange", 0, 2, None),
}
"""Methods that access memory: the kind, and the positions of pointers, values and mask."""
_WITHOUT_MASK = ("create_load", "create_store")
"""Methods that access every element of a block, by those with a mask."""
_ATOMIC = ("create_atomic_load", "create_atomic_store", "create_atomic_poll")
"""Methods of newer releases that go through the masked load and store."""
_MEET = ("barrier", "cat", "dot", "expand_dims", "gather", "histogram", "join", "reshape", "split", "trans")
"""Methods at which the threads of a program meet, or may: to compile them can take a barrier."""


def access_patches(builder: Any, now: Current) -> Iterator[tuple[tuple[Any, str], Any]]:
    """Yield each patched method and its replacement."""
    for name, place in ACCESSES.items():
        yield (builder, name), _guarded(Method(getattr(builder, name), *place), now)
    for name in _ATOMIC:
        if hasattr(builder, name):
            yield (builder, name), _atomic(getattr(builder, name), now)


def meeting_patches(builder: Any, interpreter: Any, now: Current) -> Iterator[tuple[tuple[Any, str], Any]]:
    """Yield each method at which threads meet, and its replacement."""
    for name in (f"create_{word}" for word in _MEET):
        if hasattr(builder, name):
            yield (builder, name), _meeting(getattr(builder, name), now)
    reduced = interpreter.ReduceScanOpInterface
    yield (reduced, "apply"), _meeting(reduced.apply, now)


def _guarded(method: Method, now: Current) -> Any:
    def guarded(self: Any, *args: Any) -> Any:
        watch = now.watch
        if watch.turns is not None:
            watch.turns.before()
        call = MemoryCall(method, list(args), watch)
        watch.counts[method.kind] += 1
        if call.reached.size:
            watch.early.access(method.kind, watch.program)
        if not call.keep_inside():
            return call.compared()
        if call.reached.size and (watch.pointers.any_cast or watch.hints.false):
            call.look_at_alignment(has_mask=sys._getframe(1).f_code.co_name not in _WITHOUT_MASK)
        call.resolve_pointers()
        if watch.threads is not None and call.is_deferred_by(watch.threads):
            return None
        answer = call.answer(self)
        if method.kind == "load":
            answer = call.loaded(answer)
        found = None if method.kind == "store" else answer.data
        if found is not None:
            watch.read(call.addresses, call.live, found)
            watch.pointers.loaded(found)
        if watch.turns is None and watch.patience.ends(call.addresses, found):
            watch.waits()
        return answer

    return guarded


def _atomic(original: Callable[..., Any], now: Current) -> Any:
    def atomic(self: Any, *args: Any) -> Any:
        watch = now.watch
        watch.semantic = str(args[-2])
        try:
            return original(self, *args)
        finally:
            watch.semantic = ""

    return atomic


def _meeting(original: Callable[..., Any], now: Current) -> Any:
    def meeting(self: Any, *args: Any) -> Any:
        if now.watch.threads is not None:
            now.watch.threads.meet()
        return original(self, *args)

    return meeting

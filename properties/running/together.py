"""Calls on several cases with one copy to the device before them and one copy back after them."""

from collections.abc import Callable, Mapping, Sequence

import torch

from cumae.properties.operations.binding import Binding
from cumae.properties.operations.tracebacks import traceback_of
from cumae.properties.running.allocations import FencedAllocations
from cumae.properties.running.arena import Memory, bytes_for
from cumae.properties.running.bench import Bench
from cumae.properties.running.buffer import LITTLE_GUARD_BYTES
from cumae.properties.running.call import Buffers, Call
from cumae.properties.running.device import Device
from cumae.properties.running.integrity import oracles_shut
from cumae.properties.running.observation import KernelRaised, Seen
from cumae.properties.running.progress import Progress
from cumae.properties.running.sanitizer import sanitizing
from cumae.properties.running.stopwatch import timed

MOST_BYTES = 2**24
"""Bytes after which the buffers of further calls lie in a memory of their own."""
MOST_ALLOCATED = 2**28
"""Bytes of tensors that calls have made and that live until all are read back; no call is made beyond."""


def calls_together(binding: Binding, device: Device) -> bool:
    """Whether several calls of a function are made together, which spares copies to and from a GPU."""
    return device == "cuda" and not (binding.keeps_state or sanitizing())


def observe_together(
    calls: Sequence[tuple[Bench, int]], begins: Callable[[int], None] = lambda number: None
) -> dict[int, Seen]:
    """Make calls of a function without state on fresh buffers; return what each did, by its number.

    ``calls``: the bench of each and its poison. ``begins`` gets the number of each call when it begins on the
    host, and again if it runs long on the device. No call is made after one that raises, nor once calls have
    made many tensors. If the device is lost, only the error of the call that lost it is returned.
    """
    found: dict[int, Seen] = {}
    made: dict[int, tuple[Buffers, int]] = {}
    size = 0
    for i, (bench, poison) in enumerate(calls):
        buffers = bench.buffers(poison, LITTLE_GUARD_BYTES)
        made[i] = buffers, bytes_for(buffers.there)
        size += made[i][1] + sum([b.large.numel() for b in buffers.there if b.large is not None])
        if size >= MOST_BYTES or i + 1 == len(calls):
            found |= _observed(calls, made, begins)
            if len(found) <= i or isinstance(found[i], KernelRaised):
                break
            made, size = {}, 0
    return found


def _observed(
    calls: Sequence[tuple[Bench, int]], made: Mapping[int, tuple[Buffers, int]], begins: Callable[[int], None]
) -> dict[int, Seen]:
    """Return what the calls did whose buffers are made, with their bytes; these lie in one memory."""
    memory = Memory(sum(size for _, size in made.values()), calls[0][0].device)
    content, start = memory.blank(), 0
    placed: dict[int, Call] = {}
    for i, (buffers, size) in made.items():
        bench = calls[i][0]
        placed[i] = Call(bench.binding.function, buffers, bench.device, within=(memory, start))
        placed[i].lay(content)
        start += size
    memory.upload(content)
    numbers, progress = list(made), Progress(calls[0][0].device)
    found: dict[int, Seen] = {}
    done: dict[int, tuple[object, FencedAllocations]] = {}
    num_allocated = 0
    with oracles_shut():
        for count, i in enumerate(numbers, start=1):
            if num_allocated > MOST_ALLOCATED:
                break
            begins(i)
            allocated = FencedAllocations(calls[i][1])
            try:
                with allocated:
                    done[i] = placed[i].run(wait=not progress.is_exact), allocated
            except KernelRaised as error:
                found[i] = error
                break
            try:
                progress.passed(count)
            except RuntimeError:
                break  # the device is lost, as is found when it is waited for
            num_allocated += allocated.num_bytes
    try:
        with timed("kernel"):
            progress.wait(lambda over: begins(numbers[min(over, len(numbers) - 1)]))
        content = memory.content()
        if not memory.on_host:
            torch.cuda.synchronize()
    except RuntimeError as error:  # the device is lost
        if not progress.is_exact:
            return found
        i = numbers[min(progress.num_over, len(numbers) - 1)]
        said = f"raised {type(error).__name__}: {error}".splitlines()[0]
        return {i: found.get(i, KernelRaised(said, traceback_of(error)))}
    for i, (answer, allocated) in done.items():
        bench, poison = calls[i]
        placed[i].take(content)
        try:
            found[i] = bench.seen(placed[i], answer, allocated, None, poison)
        except KernelRaised as error:
            found[i] = error
    return found

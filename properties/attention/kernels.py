"""What a kernel says of a case, as an oracle would say it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from cumae.oracle import UNTOUCHED, Case, Inputs
from cumae.properties.attention.answers import Answer, Lists, right_answers
from cumae.properties.dialects import DIALECTS, Rows
from cumae.properties.operations import OPERATIONS
from cumae.properties.running.allocations import FencedAllocations
from cumae.properties.running.binding import bind
from cumae.properties.running.device import Device
from cumae.properties.running.memory import Words
from cumae.properties.running.observe import POISON, Bench, Call, KernelRaised


def kernel_answer(function: Callable[..., Any], operation: str, device: Device) -> Answer:
    """Return how a kernel answers for an operation, launched on poisoned buffers under its argument names.

    A class runs the step before first, if there was one; where the host does not know the lengths it may
    refuse to answer, and a fresh build does. Raises ``KernelRaised`` with any other error inside.
    """
    binding = bind(function, OPERATIONS[operation], DIALECTS["cumae"])

    def launched(inputs: Inputs) -> Lists:
        case, previous = _plain_rows(inputs.case), inputs.previous
        bench, allocated, earlier = Bench(binding, case, device, previous), FencedAllocations(POISON), None
        with allocated:
            instance = bench.made()
        if binding.keeps_state and previous is not None:
            earlier = Call(Bench(binding, _plain_rows(previous), device), POISON, function=instance)
            _run(earlier, allocated, previous)
        call = Call(bench, POISON, earlier, function=instance)
        done, answer = _run(call, allocated, case)
        if not done:
            return right_answers()[operation](inputs)
        outputs = bench.seen(call, answer, allocated, None).outputs
        return _as_lists({name: _listed(bench, words) for name, words in outputs.items()})

    return launched


def _run(call: Call, allocated: FencedAllocations, case: Case) -> tuple[bool, Any]:
    """Return whether the kernel answered, and its answer."""
    try:
        with allocated:
            return True, call.run()
    except KernelRaised as error:
        if case.layout.host_lens or not isinstance(error.__cause__, ValueError):
            raise
        return False, None


def _plain_rows(case: Case) -> Case:
    """Return the case with rows so wide that no two hold the same bytes."""
    return replace(
        case, options=replace(case.options, row_format="bf16", kv_lora_rank=512, qk_rope_head_dim=64)
    )


def _listed(bench: Bench, words: Words) -> list[Any]:
    """Return the entries of an output, rows of bytes as the sources that they were copied from."""
    if words.ndim == 1:
        return [int(word) for word in words]
    sources: dict[bytes, Any] = {}
    for name, kind in (("cache", "cache"), ("new_rows", "new")):
        rows = bench.held(name)
        assert isinstance(rows, Rows)
        for place, content in zip(rows.live.tolist(), rows.content, strict=True):
            sources[content.tobytes()] = (kind, *place)
    return [sources.get(row.tobytes(), UNTOUCHED) for row in words]


def _as_lists(outputs: dict[str, list[Any]]) -> Lists:
    """Return packed windows as the two outputs that they are."""
    if "windows" in outputs:
        return {"ks": outputs["windows"][::2], "ke": outputs["windows"][1::2]}
    return outputs

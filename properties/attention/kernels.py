"""What a kernel says of a case, as an oracle would say it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from cumae.oracle import UNTOUCHED, Case, Inputs
from cumae.properties.attention.answers import Answer, Lists, right_answers
from cumae.properties.dialects import DIALECTS, Output, Rows
from cumae.properties.operations import OPERATIONS
from cumae.properties.operations.binding import bind
from cumae.properties.running.allocations import FencedAllocations
from cumae.properties.running.bench import POISON, Bench
from cumae.properties.running.call import Call
from cumae.properties.running.device import Device
from cumae.properties.running.memory import Words
from cumae.properties.running.observation import KernelRaised


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
            earlier = Bench(binding, _plain_rows(previous), device).call(POISON, function=instance)
            _run(earlier, allocated, previous)
        call = bench.call(POISON, earlier, function=instance)
        done, answer = _run(call, allocated, case)
        if not done:
            return right_answers()[operation](inputs)
        seen = bench.seen(call, answer, allocated, None)
        return _as_lists(
            {
                name: _listed(bench, binding.forms[name], words, seen.before[name])
                for name, words in seen.outputs.items()
            }
        )

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
    """Return the case with rows that are copied, so wide that no two hold the same bytes."""
    plain: dict[str, Any] = {
        "row_format": "bf16",
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
        "power_of_two_scales": False,
    }
    return replace(case, options=case.options.having(**plain))


def _listed(bench: Bench, output: Output, words: Words, before: Words) -> list[Any]:
    """Return the entries of an output, rows of bytes as the sources that they were copied from.

    A row that was changed in place and is no new row is row -1, nobody's.
    """
    if output.pieces is None:
        return [int(word) for word in words]
    sources: dict[bytes, Any] = {}
    for kind, piece in output.pieces.items():
        rows = bench.held(piece.name)
        assert isinstance(rows, Rows)
        for place, content in zip(rows.live.tolist(), rows.content, strict=True):
            sources[content.tobytes()] = (kind, *place)
    if output.is_in_place:
        found = [sources.get(row.tobytes(), ("new", -1)) for row in words]
        kept = (words == before).all(axis=1)
        return [UNTOUCHED if same else source for same, source in zip(kept, found, strict=True)]
    return [sources.get(row.tobytes(), UNTOUCHED) for row in words]


def _as_lists(outputs: dict[str, list[Any]]) -> Lists:
    """Return packed windows as the two outputs that they are."""
    if "windows" in outputs:
        return {"ks": outputs["windows"][::2], "ke": outputs["windows"][1::2]}
    return outputs

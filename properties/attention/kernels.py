"""Answers of kernels on a case, in the form of an oracle's answers."""

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
from cumae.properties.running.observation import KernelRaised
from cumae.properties.running.words import Words


def kernel_answer(function: Callable[..., Any], operation: str, device: Device) -> Answer:
    """Return the answer of a kernel for an operation, launched on poisoned buffers by argument name.

    A class first runs the step before, if there was one. If the host does not know the lengths, it may
    refuse with ``ValueError``; then the oracle answers. Raises ``KernelRaised`` for any other error.
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
        call.collect()
        seen = bench.seen(call, answer, allocated, None)
        return _as_lists(
            {
                name: _listed(bench, binding.forms[name], words, seen.before[name])
                for name, words in seen.outputs.items()
            }
        )

    return launched


def _run(call: Call, allocated: FencedAllocations, case: Case) -> tuple[bool, Any]:
    """Call the kernel; return whether it answered, and its answer."""
    try:
        with allocated:
            return True, call.run()
    except KernelRaised as error:
        if case.layout.host_lens or not isinstance(error.__cause__, ValueError):
            raise
        return False, None


def _plain_rows(case: Case) -> Case:
    """Return the case with bf16 rows, which are copied and wide enough to be distinct."""
    plain: dict[str, Any] = {
        "row_format": "bf16",
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
        "power_of_two_scales": False,
        "odd_rows": False,
    }
    return replace(case, options=case.options.having(**plain))


def _listed(bench: Bench, output: Output, words: Words, before: Words) -> list[Any]:
    """Return the entries of an output, with rows of bytes as the sources that they were copied from.

    A row that was changed in place and matches no source has source ``("new", -1)``.
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
    """Return the outputs with packed windows split into ``ks`` and ``ke``."""
    if "windows" in outputs:
        return {"ks": outputs["windows"][::2], "ke": outputs["windows"][1::2]}
    return outputs

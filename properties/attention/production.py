"""A step with a mix of requests as in engines, the shipped kernels, and a fault in each operation."""

from collections.abc import Mapping
from random import Random
from typing import Any

from cumae.oracle import Batch, Case, Inputs, Layout, Options, Phase, Request
from cumae.properties.attention.answers import NO_PART, Answer, Lists, right_answers
from cumae.properties.attention.judge import judged
from cumae.properties.attention.kernels import kernel_answer
from cumae.properties.attention.reasons import reasons
from cumae.properties.attention.step import Step
from cumae.properties.operations import OPERATIONS
from cumae.properties.operations.targets import load_function
from cumae.properties.running.device import Device


def production_case(num_requests: int, longest: int, topk: int, block_size: int = 64) -> Case:
    """Return a mix of decodes, speculative decodes, prefill chunks and idle requests; half share a prefix."""
    random = Random(1)
    kinds: list[tuple[Phase, int]] = [
        ("decode", 1),
        ("decode", 4),
        ("prefill", 0),
        ("prefill", 256),
        ("prefill", 1),
    ]
    prefix = longest // 4 // block_size
    pool = list(range(1, num_requests * (2 * longest // block_size + 2)))
    random.shuffle(pool)
    shared = [pool.pop() for _ in range(prefix)]
    requests = []
    for b in range(num_requests):
        phase, query_len = kinds[b % len(kinds)]
        context_len = random.randint(prefix * block_size + 1, longest) if b % 8 or phase == "decode" else 0
        query_len = min(query_len, longest)
        needed = -(-(context_len + query_len) // block_size)
        ids = shared if b % 2 and context_len else []
        ids = [*ids, *(pool.pop() for _ in range(needed - len(ids)))]
        requests.append(Request(context_len, query_len, tuple(ids), phase))
    layout = Layout(num_padding_tokens=7, num_padding_requests=3, garbage="huge")
    window = min(128, longest // 2)
    options = Options.of(topk=topk, window=window, split_size=64, num_workers=132, chunk_blocks=8)
    return Case(Batch(tuple(requests), block_size), layout, options)


def kernels(device: Device) -> dict[str, Answer]:
    """Return the answer of the first shipped kernel of each operation."""
    return {
        name: kernel_answer(load_function(operation.kernels[0]), name, device)
        for name, operation in OPERATIONS.items()
        if operation.kernels and name not in NO_PART
    }


def faults_noticed(case: Case, answers: Mapping[str, Answer]) -> dict[str, list[str]]:
    """Return for each operation in ``answers`` the routes that notice one wrong entry.

    The entry is one outside all blind spots, raised by one.
    """
    step, found = Step(case, {**right_answers(), **answers}), {}
    for name, answer in answers.items():
        wrong = with_a_fault(name, step.inputs(name), answer)
        planted = {**answers, name: _always(wrong)}
        found[name] = [fault.route for fault in judged(case, planted, through=[name]).faults]
    return found


def _always(said: Lists) -> Answer:
    return lambda inputs: said


def with_a_fault(operation: str, inputs: Inputs, answer: Answer) -> Lists:
    """Return an answer with one entry that matters, from the middle of an output on, raised by one."""
    right = answer(inputs)
    for name, values in right.items():
        middle = len(values) // 2
        for index in [*range(middle, len(values)), *range(middle)][:1000]:
            value: Any = values[index]
            if isinstance(value, (int, tuple)):
                now = (*value[:-1], value[-1] + 1) if isinstance(value, tuple) else value + 1
                wrong = {**right, name: [*values[:index], now, *values[index + 1 :]]}
                if None in reasons(operation, inputs, right, wrong):
                    return wrong
    raise ValueError(f"operation = {operation!r}, must have an entry that attention depends on")

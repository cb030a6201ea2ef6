"""A step of production size, its kernels, and a fault in each operation: for the GPU, and small on a CPU."""

from collections.abc import Mapping
from random import Random
from typing import Any

from cumae.oracle import Batch, Case, Inputs, Layout, Options, Phase, Request
from cumae.properties.attention.answers import Answer, Lists, asked
from cumae.properties.attention.kernels import kernel_answer
from cumae.properties.attention.large import Dims
from cumae.properties.attention.large_routes import ROUTES, WRITES, Compared, compared
from cumae.properties.attention.reasons import reasons
from cumae.properties.operations import OPERATIONS
from cumae.properties.operations.targets import load_function
from cumae.properties.running.device import Device

REACHED = sorted({*WRITES, *(name for operations, _, _ in ROUTES.values() for name in operations)})


def production_case(num_requests: int, longest: int, topk: int, block_size: int = 64, seed: int = 1) -> Case:
    """Return decodes, speculative ones, first and later chunks and idle requests, half behind one prefix."""
    random = Random(seed)
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
    options = Options.of(topk=topk, split_size=64, num_workers=132, chunk_blocks=8)
    return Case(Batch(tuple(requests), block_size), layout, options)


def kernels(device: Device) -> dict[str, Answer]:
    """Return how the kernels shipped here answer, each asked once."""
    return {
        name: _once(kernel_answer(load_function(OPERATIONS[name].kernels[0]), name, device))
        for name in REACHED
    }


def _once(answer: Answer) -> Answer:
    known: list[Lists] = []

    def remembered(inputs: Inputs) -> Lists:
        if not known:
            known.append(answer(inputs))
        return known[0]

    return remembered


def faults_noticed(
    case: Case, answers: Mapping[str, Answer], device: str, dims: Dims
) -> dict[str, list[Compared]]:
    """Return for each operation the routes on which one wrong entry of each of its outputs shows, at once.

    The entry is the first that is in no blind spot, raised by one.
    """
    found = {}
    for name in REACHED:
        wrong = with_a_fault(name, asked(name, case, None, 0), answers[name])
        planted = {**answers, name: _always(wrong)}
        routes = compared(case, planted, device, dims, through=[name])
        found[name] = [route for route in routes if not route.worst <= 1]
    return found


def _always(said: Lists) -> Answer:
    return lambda inputs: said


def with_a_fault(operation: str, inputs: Inputs, answer: Answer) -> Lists:
    """Return an answer with its middle entry that matters raised by one, in the first output that has one."""
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

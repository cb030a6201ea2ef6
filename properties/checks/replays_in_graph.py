"""GPU: a call captured on one case replays on others with the same padded sizes and host numbers."""

from dataclasses import replace
from functools import partial

import torch

from cumae.oracle import Case
from cumae.properties.cases.draws import edited, permuted
from cumae.properties.checks.never_synchronises import never_synchronises
from cumae.properties.comparing.compare import changed
from cumae.properties.comparing.judged import wrong_besides
from cumae.properties.operations.tracebacks import told_of, traceback_of
from cumae.properties.results.verdict import Finding
from cumae.properties.running.bench import POISON
from cumae.properties.running.call import Call
from cumae.properties.running.cuda_graphs import captured_graph
from cumae.properties.running.trial import Trial


def replays_in_graph(trial: Trial) -> Finding | None:
    """Capture the call, replay it over other inputs at the same addresses, compare with fresh calls.

    ``never_synchronises`` reports a call that synchronises and therefore cannot be captured. Traces of an
    engine test the functions that keep state.
    """
    if trial.binding.keeps_state:
        return None
    captured = trial.quiet.call(POISON)
    captured.run()
    try:
        graph, _ = captured_graph(partial(captured.function, **captured.arguments))
    except Exception as error:
        torch.cuda.synchronize()
        if never_synchronises(trial) is not None:
            return None
        message = f"the call cannot be captured: {told_of(error, captured.function)}"
        rule = "a call can be captured in a CUDA graph"
        return Finding("replays_in_graph", message, rule, traceback=traceback_of(error))
    for case in (trial.quiet.case, *of_the_same_sizes(trial.quiet.case)):
        if trial.binding.why_not(case) is not None:
            continue
        bench = trial.bench(case, "when replayed from a graph")
        call = bench.call(POISON, earlier=captured)
        if not is_same_launch(captured, call):
            continue
        graph.replay()
        torch.cuda.synchronize()
        call.collect()
        fresh = bench.observe()
        expected = bench.expected()
        live = {name: expected[name].is_repeatable for name in trial.binding.outputs}
        told = replace(fresh, outputs={name: fresh.outputs[name] for name in live})
        seen = replace(fresh, outputs={buffer.name: buffer.words() for buffer in call.outputs})
        because = "when replayed from a graph"
        found = changed("replays_in_graph", trial.binding, told, seen, live, because) or wrong_besides(
            "replays_in_graph", trial.binding, told, seen, expected, case, because
        )
        if found is not None:
            return found
    return None


def is_same_launch(captured: Call, call: Call) -> bool:
    """Whether a replay of the captured call has these arguments: the same addresses, shapes and numbers."""
    pairs = zip((*captured.inputs, *captured.outputs), (*call.inputs, *call.outputs), strict=True)
    same = all(
        a.shape == b.shape
        and a.strides == b.strides
        and a.tensor is not None
        and b.tensor is not None
        and a.tensor.data_ptr() == b.tensor.data_ptr()
        for a, b in pairs
    )
    return same and call.reuses and call.numbers == captured.numbers


def of_the_same_sizes(case: Case) -> list[Case]:
    """Return cases of the same padded sizes: reversed requests, and one token turned into padding."""
    requests = list(case.batch.requests)
    others = [permuted(case, list(range(len(requests)))[::-1])]
    for b, request in reversed(list(enumerate(requests))):
        if request.query_len > 0:
            requests[b] = replace(request, query_len=request.query_len - 1)
            fewer = edited(case, requests, case.layout.row_index)
            padding = case.layout.num_padding_tokens + 1
            if not case.options.padding.dummy_request:
                others.append(fewer.laid_out(num_padding_tokens=padding))
            break
    return others

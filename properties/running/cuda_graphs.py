"""Capture of calls in a CUDA graph."""

import gc
import warnings
from collections.abc import Callable
from typing import Any

import torch


def captured_graph(run: Callable[[], Any]) -> tuple[torch.cuda.CUDAGraph, Any]:
    """Return the graph of the launches of ``run``, and its answer. Raises the errors of ``run``.

    The garbage collector is off meanwhile: destroying an older graph would invalidate the capture.
    """
    graph = torch.cuda.CUDAGraph()
    collects = gc.isenabled()
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="The CUDA Graph is empty")
            with torch.cuda.graph(graph):
                answer = run()
    finally:
        if collects:
            gc.enable()
    return graph, answer

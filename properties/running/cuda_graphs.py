"""GPU: calls captured in a CUDA graph."""

import gc
import warnings
from collections.abc import Callable
from typing import Any

import torch


def captured_graph(run: Callable[[], Any]) -> tuple[torch.cuda.CUDAGraph, Any]:
    """Return the graph of what ``run`` launches, and what it returned. Raises what it raises in a capture.

    Garbage is left alone meanwhile: an older graph that is destroyed during a capture makes it invalid.
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

"""Take functions, classes and kernels by name from a file of released code without importing its package."""

import os
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from cumae.oracle.model.rules import require
from cumae.properties.taking.gpus import has_gpu
from cumae.properties.taking.imports import reaches
from cumae.properties.taking.loader import Loader
from cumae.properties.taking.module import Module
from cumae.properties.taking.unpack import file_of


def take(source: str | Path, *names: str, **stubs: Any) -> Any:
    """Return the definition of a name in a Python file, or a tuple of definitions for several names.

    ``source``: a file of a folder, a checkout or an installed package, or inside a wheel
    (``vllm.whl/vllm/v1/worker/block_table.py``). ``names``: functions, kernels, classes or constants;
    ``Class.method`` is one method as a function, a static one unchanged and a class method without its class.
    The file is not imported: only the names and their dependencies are defined. Imports inside the same
    source are followed in the same way; torch, triton, numpy and the standard library are the real ones; any
    other import is a stub, which serves as base class, decorator or flag and raises if its value is used.
    ``stubs``: values for such names, or for any other name that the code defines or imports at the top of a
    file.

    Without a GPU, and if kernels are interpreted (``TRITON_INTERPRET=1``), ``x.is_cuda`` is true, ``"cuda"``
    names the CPU, no memory is pinned and ``torch.compile`` leaves functions alone. A call outside a test
    gives an interpreted autotuned kernel its first configuration. On a GPU nothing is rewritten. Raises
    ``ValueError`` for a file or a name that does not exist, a name that cannot be defined, and an unused
    stub.
    """
    path = file_of(source)
    require(bool(names), "names", names, f"name definitions to take from {path.name}")
    interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    loader = Loader(stubs, on_cpu=interpreted or not has_gpu(), interpreted=interpreted)
    module = loader.module(path)
    found = tuple(_taken(module, name, path) for name in names)
    loader.settle(last=True)
    for name in stubs:
        require(reaches(name, path), "stubs", name, f"be a name in {path.name} or in a file that it imports")
    return found[0] if len(found) == 1 else found


def _taken(module: Module, name: str, path: Path) -> Any:
    owner, _, method = name.partition(".")
    value = module.method(owner, method) if method else None
    if method and value is not None:
        return value
    if not method and _is_there(module, name):
        return getattr(module, name)
    if condition := module.condition_of(owner):
        rule = f"be defined in {path}: {condition}; pass values for these names, as in take(…, name=value)"
        raise ValueError(f"names = {name!r}, must {rule}")
    near = module.owners(method) if method else []
    near = near or get_close_matches(owner, module.names, n=3, cutoff=0.5)
    like = f", which has {', '.join(near)}" if near else ""
    raise ValueError(f"names = {name!r}, must be defined in {path}{like}")


def _is_there(module: Module, name: str) -> bool:
    """Return whether a name is there to be taken; of a class that cannot be defined, tell of its methods."""
    try:
        return module.need(name)
    except ValueError as error:
        if not module.is_class(name):
            raise
        raise ValueError(f"{error}; one method needs less: take(…, '{name}.METHOD')") from error

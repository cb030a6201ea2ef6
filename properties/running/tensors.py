"""A case as the tensors that an engine would pass to a kernel, by the engine's names."""

from collections.abc import Sequence
from typing import Any

from cumae.oracle import Case, Inputs
from cumae.oracle.model.rules import require
from cumae.properties.dialects import TENSORS, Dialect, DialectName, dialect_named
from cumae.properties.running.arena import Arena
from cumae.properties.running.device import Device
from cumae.properties.running.memory import hold


def tensors(
    case: Case,
    dialect: DialectName | Dialect = "cumae",
    device: Device = "cpu",
    names: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Return the inputs of a dialect for a case, or only the ``names`` given: tensors and host numbers.

    Names ending in ``_cpu`` are host tensors on any device. Raises ``ValueError`` for an unknown
    dialect or name.

    >>> from cumae.oracle import Batch, Request
    >>> case = Case(Batch((Request(2, 1, (5,), "decode"), Request(0, 0), Request(0, 2, (3,))), 4))
    >>> tensors(case, "vllm", names=["query_start_loc", "block_size"])
    {'query_start_loc': tensor([0, 1, 1, 3], dtype=torch.int32), 'block_size': 4}
    """
    dialect, inputs = dialect_named(dialect), Inputs(case)
    found: dict[str, Any] = {}
    for name in dialect.inputs if names is None else names:
        require(name in dialect.inputs, "names", name, f"be among {', '.join(sorted(dialect.inputs))}")
        held = dialect.inputs[name].hold(inputs)
        if isinstance(held, TENSORS):
            here: Device = "cpu" if name.endswith("_cpu") else device
            buffer = hold(name, held, here, case.layout.storage_offset)
            Arena([buffer], here).fill([buffer])
            found[name] = buffer.tensor
        else:
            found[name] = held
    return found

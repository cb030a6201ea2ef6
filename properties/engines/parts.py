"""Plans made on the host, as adapters write them into outputs of one length."""

from collections.abc import Iterable

import torch


def write_parts(parts: Iterable[tuple[int, ...]], *outputs: torch.Tensor) -> None:
    """Write the numbers of each part into the outputs, one number into each, and -1 behind the parts.

    Parts for which there is no room are dropped: no right plan has so many.
    """
    columns = torch.tensor([*parts], dtype=torch.int32).reshape(-1, len(outputs)).T
    for output, values in zip(outputs, columns, strict=True):
        output.fill_(-1)
        output[: values.numel()].copy_(values[: output.numel()])

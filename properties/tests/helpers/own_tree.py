"""A source tree with a function in this repository's names, whose package needs what is not installed."""

from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent

FILE = "own/kernels/positions.py"
TARGET = f"{FILE}:positions"
SOURCE = {
    "own/__init__.py": "raise RuntimeError('nobody imports the package')\n",
    "own/sizes.py": "FIRST = 0\n",
    FILE: """
        import torch
        from absent_config import SIZE, register
        from own.sizes import FIRST

        @register("positions")
        def positions(context_lens, query_lens, num_tokens, num_tokens_padded):
            first_row = query_lens.cumsum(0) - query_lens
            shift = torch.repeat_interleave(context_lens - first_row, query_lens, output_size=num_tokens)
            answer = torch.zeros(num_tokens_padded, dtype=torch.int64, device=context_lens.device)
            answer[:num_tokens] = shift + torch.arange(FIRST, FIRST + num_tokens, device=shift.device)
            return answer

        def unfinished(context_lens):
            return torch.zeros(int(SIZE))
        """,
}
OP = ("--op", "position_ids")


def write_tree(folder: Path, first: int = 0, changes: Mapping[str, str] | None = None) -> Path:
    """Write the tree; ``first``: what is added to each position; ``changes``: replaced words of the file."""
    for name, text in SOURCE.items():
        for old, new in (changes or {}).items():
            text = text.replace(old, new)
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text).replace("FIRST = 0", f"FIRST = {first}"))
    return folder

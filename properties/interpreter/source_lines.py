"""The line of a kernel that is running."""

import os
import sys
from pathlib import Path
from types import FrameType

_HOOKS = tuple(
    str(Path(__file__).with_name(f"{name}.py"))
    for name in ("accesses", "delays", "hooks", "launch", "programs", "source_lines", "turns", "watch")
)


def source_line() -> str:
    """Return file and line of the innermost frame outside Triton and the hooks: the kernel's statement."""
    import triton

    theirs = os.path.dirname(triton.__file__)
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith((theirs, *_HOOKS)):
            return f"{os.path.basename(file)}:{frame.f_lineno}"
        frame = frame.f_back
    return "unknown line"

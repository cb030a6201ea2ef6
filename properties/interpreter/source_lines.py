"""The line of a kernel that is running."""

import os
import sys
from types import FrameType

_HOOKS = os.path.join(os.path.dirname(__file__), "")


def source_line() -> str:
    """Return file and line of the innermost frame outside Triton and the hooks: the kernel's statement."""
    import triton

    theirs = os.path.dirname(triton.__file__)
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith((theirs, _HOOKS)):
            return f"{os.path.basename(file)}:{frame.f_lineno}"
        frame = frame.f_back
    return "unknown line"

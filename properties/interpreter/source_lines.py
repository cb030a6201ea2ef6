"""The line of a kernel that is running."""

import os
import sys
from types import FrameType

_HOOKS = os.path.join(os.path.dirname(__file__), "")


def source_line() -> str:
    """Return file and line of the kernel's statement that runs."""
    frame = kernel_frame()
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}" if frame else "unknown line"


def kernel_frame() -> FrameType | None:
    """Return the innermost frame outside Triton and the hooks: that of the kernel's statement."""
    import triton

    theirs = os.path.dirname(triton.__file__)
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith((theirs, _HOOKS)):
            return frame
        frame = frame.f_back
    return None

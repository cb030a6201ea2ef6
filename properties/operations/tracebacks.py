"""The place where a function under test raised: its own line, the kernel's line, and the traceback."""

import inspect
import os
from collections.abc import Iterable, Iterator
from linecache import getline
from pathlib import Path
from traceback import TracebackException, walk_tb
from types import FrameType
from typing import Any, NamedTuple

from cumae.properties.operations.users_files import files_of, is_ours, is_users

Frames = list[tuple[FrameType, int]]
MOST_LINES = 8
"""Lines of an error's message that a report shows; the traceback has all of them."""
_WITHOUT_GPU = (
    "Torch not compiled with CUDA enabled",
    "Found no NVIDIA driver",
    "No CUDA GPUs are available",
    "Expected a cuda device, but got: cpu",
    "Tried to instantiate dummy base class",
    "no pinned memory allocator is available",
    "Cannot access accelerator device when none is available",
    "0 active drivers",
)
"""What torch and Triton say to code of the host that asks for the GPU of a machine that has none."""


class Line(NamedTuple):
    """A line that an error passed through, and its function."""

    file: str
    line: int
    name: str

    def __str__(self) -> str:
        return f"{Path(self.file).name}:{self.line} in {self.name}"


def told_of(error: BaseException, function: object = None, when: str = "") -> str:
    """Return an error as text: type, message, and the lines of the function and of its kernel.

    ``when``: text after the type. For Triton's interpreter wrapper, the wrapped error is used.
    """
    text = message_of(error, when)
    host, kernel = host_line(error, function), kernel_line(error, function)
    lines = [str(host)] if host else []
    lines += [f"kernel at {kernel}"] if kernel else []
    return f"{text} ({', '.join(lines)})" if lines else text


def message_of(error: BaseException, when: str = "") -> str:
    """Return an error's type and message; unwraps Triton's errors and finds why a kernel did not compile."""
    while _is_wrapper(error) and error.__cause__ is not None:
        error = error.__cause__
    said = getattr(_innermost(error), "error_message", None) if is_compile_error(error) else None
    message = _text_of(said or error)
    if "CUDA error" in message:
        message = message.splitlines()[0]  # the other lines advise CUDA authors
    lines = message.splitlines()
    if len(lines) > MOST_LINES:
        more = f"… {len(lines) - MOST_LINES} more lines of the error, with -v"
        message = "\n".join([*lines[:MOST_LINES], more])
    return f"{type(error).__name__}{when}" + (f": {message}" if message else "")


def _text_of(value: object) -> str:
    """Return a value as text; an error's own ``__str__`` may raise."""
    try:
        return str(value)
    except Exception as failure:
        return f"no text: its __str__ raised {type(failure).__name__}"


def traceback_of(error: BaseException) -> str:
    """Return the traceback as Python prints it, without this suite's frames at its outer end."""
    entry = error.__traceback__
    while entry is not None and is_ours(entry.tb_frame.f_code.co_filename):
        entry = entry.tb_next
    whole = TracebackException(type(error), error, entry)
    last = whole
    for _ in list(_chain(error))[1:]:
        last = last.__cause__ or last.__context__ or last
    last.__cause__ = last.__context__ = None
    return "".join(whole.format()).rstrip()


def asks_for_gpu(error: BaseException) -> bool:
    """Return whether an error comes of a missing GPU: one of torch or Triton, or an ``assert x.is_cuda``."""
    asserted = (list(walk_tb(one.__traceback__)) for one in _chain(error) if isinstance(one, AssertionError))
    lines = (getline(frame.f_code.co_filename, line) for *_, (frame, line) in filter(None, asserted))
    return says(error, _WITHOUT_GPU) or any("cuda" in line for line in lines)


def says(error: BaseException, words: Iterable[str]) -> bool:
    """Return whether an error, or one that it comes of, says one of these words."""
    told = [_text_of(one) for one in _chain(error)]
    return any(word in text for word in words for text in told)


def host_line(error: BaseException, function: object = None) -> Line | None:
    """Return the innermost line of the user's code outside kernels, None if there is none."""
    own = files_of(function)
    for one in _chain(error):
        host, _ = _parted(list(walk_tb(one.__traceback__)))
        if found := _last(host, own):
            return found
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        return Line(error.filename, error.lineno, "the module")
    return None


def kernel_line(error: BaseException, function: object = None) -> Line | None:
    """Return the innermost line of a kernel that was interpreted or could not be compiled, or None.

    If a launch failed before the kernel's first line, return the line of its ``def``.
    """
    own = files_of(function)
    found = launched = None
    for one in _chain(error):
        frames = list(walk_tb(one.__traceback__))
        found = _last(_parted(frames)[1], own) or found
        launched = launched or _launched(frames)
        if launched is not None and is_compile_error(one):
            return compile_line(one, launched)
        if found is not None and not _is_wrapper(one):
            break
    return found or (None if launched is None else _line_in(launched, 1))


def compile_line(error: BaseException, kernel: Any) -> Line:
    """Return the line of a kernel, or of a function it calls, at which Triton's compiler stopped."""
    found = _line_in(kernel, 1)
    for one in _chain(error):
        line = getattr(getattr(one, "node", None), "lineno", None)
        if line is None:
            continue
        same = (k for k in _callees(kernel) if getattr(k, "src", "") == getattr(one, "src", None))
        users = (k for k in same if is_users(k.fn.__code__.co_filename, files_of(kernel.fn)))
        found = next((_line_in(k, line) for k in users), found)
    return found


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes and contexts, up to those that this suite handles."""
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        yield one
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
        entry = None if one is None else one.__traceback__
        if entry is None or is_ours(entry.tb_frame.f_code.co_filename):
            return


def _is_wrapper(error: BaseException) -> bool:
    return _is_of_triton(error, "InterpreterError")


def is_compile_error(error: BaseException) -> bool:
    """Return whether Triton could not compile a kernel."""
    return _is_of_triton(error, "CompilationError")


def _is_of_triton(error: BaseException, name: str) -> bool:
    return any(k.__name__ == name and k.__module__.startswith("triton.") for k in type(error).__mro__)


def _innermost(error: BaseException) -> BaseException:
    """Return the last compile error of a chain, which belongs to the called function and names the reason."""
    return [one for one in _chain(error) if is_compile_error(one)][-1]


def _parted(frames: Frames) -> tuple[Frames, Frames]:
    """Return the frames before Triton's interpreter, and the kernel frames below it.

    A grid function is also called there, before its kernel: its frame counts as the host's.
    """
    ending = os.path.join("triton", "runtime", "interpreter.py")
    below = [i for i, (frame, _) in enumerate(frames) if frame.f_code.co_filename.endswith(ending)]
    kernels = [kernel for frame, _ in frames if _is_kernel(kernel := frame.f_locals.get("self"))]
    if not any(_is_code_of(frame, kernel) for frame, _ in frames for kernel in kernels):
        return frames, []
    return frames[: below[0]], frames[below[0] :]


def _last(frames: Frames, own: Iterable[str]) -> Line | None:
    for frame, line in reversed(frames):
        if is_users(frame.f_code.co_filename, own):
            return Line(frame.f_code.co_filename, line, frame.f_code.co_name)
    return None


def _launched(frames: Frames) -> Any:
    """Return the kernel of the innermost launch among the frames, None if there is none."""
    for frame, _ in reversed(frames):
        kernel = frame.f_locals.get("self")
        if _is_kernel(kernel):
            return kernel
    return None


def _is_code_of(frame: FrameType, kernel: Any) -> bool:
    """Whether a frame runs a kernel, whose code the interpreter compiles anew."""
    code = kernel.fn.__code__
    return (frame.f_code.co_filename, frame.f_code.co_name) == (code.co_filename, code.co_name)


def _is_kernel(value: object) -> bool:
    """Whether a value is a function under ``@triton.jit``, compiled or interpreted."""
    if not type(value).__module__.startswith("triton.runtime."):
        return False
    return getattr(getattr(value, "fn", None), "__code__", None) is not None


def _line_in(kernel: Any, line: int) -> Line:
    """Return a line of a kernel in its file, counted from its ``def``."""
    code = kernel.fn.__code__
    first = code.co_firstlineno
    try:
        lines, first = inspect.getsourcelines(kernel.fn)
    except OSError:
        lines = []
    before = next((i for i, text in enumerate(lines) if text.lstrip().startswith("def ")), 0)
    return Line(code.co_filename, first + before + line - 1, kernel.fn.__name__)


def _callees(kernel: Any) -> Iterator[Any]:
    """Yield a kernel and, recursively, the kernels that its module and the modules named there hold."""
    seen, waiting = set(), [kernel]
    while waiting:
        one = waiting.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        named = list(inspect.getclosurevars(one.fn).nonlocals.values())
        for value in (*named, *one.fn.__globals__.values()):
            values = vars(value).values() if inspect.ismodule(value) else (value,)
            waiting += filter(_is_kernel, values)

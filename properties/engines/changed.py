"""Whether a released function failed because it takes other arguments than its adapter passes."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from traceback import walk_tb
from types import SimpleNamespace

from cumae.oracle import Case
from cumae.properties.operations.binding import Binding
from cumae.properties.operations.tracebacks import is_compile_error, message_of
from cumae.properties.operations.users_files import is_foreign, is_ours, is_pythons
from cumae.properties.running.bench import Bench
from cumae.properties.running.device import Device
from cumae.properties.running.observation import KernelRaised
from cumae.properties.taking.stub import NotGiven

ADAPTERS = Path(__file__).parent


def why_changed(binding: Binding, case: Case, device: Device) -> str:
    """Return the error of a call in words if the function takes other arguments, "" if not.

    It does if the adapter's own call failed, or if what stands in for an engine's object lacks an attribute.
    The call is made again, for its error.
    """
    try:
        Bench(binding, case, device).observe()
    except KernelRaised as raised:
        causes = list(causes_of(raised))[1:]
        if any(map(_lacks_attribute, causes)) or (causes and _is_of_call(causes)):
            return message_of(causes[0])
    return ""


def needs_stub(error: ValueError) -> bool:
    """Return whether a function could not be judged because it needs the value of a stub."""
    return any(isinstance(one, NotGiven) for one in causes_of(error))


def causes_of(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes."""
    one: BaseException | None = error
    while one is not None:
        yield one
        one = one.__cause__


def _lacks_attribute(error: BaseException) -> bool:
    """Return whether an attribute is missing of an object of an adapter, or of a class that was taken."""
    if not isinstance(error, AttributeError):
        return False
    module = type(error.obj).__module__
    ours = module.startswith("cumae.properties.engines.") or module.startswith("taken")
    return ours or isinstance(error.obj, SimpleNamespace)


def _is_of_call(causes: Sequence[BaseException]) -> bool:
    """Return whether an adapter, or what it calls of a library, raised an error: no line of the engine did.

    A kernel that does not compile is the engine's. ``causes``: the error, then its causes, as an error inside
    a kernel is that of the interpreter's own.
    """
    files = [frame.f_code.co_filename for one in causes for frame, _ in walk_tb(one.__traceback__)]
    of_adapters = {file for file in files if ADAPTERS in Path(file).parents}
    others = (file for file in reversed(files) if file in of_adapters or not _is_between(file))
    return next(others, "") in of_adapters and not any(map(is_compile_error, causes))


def _is_between(file: str) -> bool:
    """Return whether a file is of neither adapters nor engines: of a library, or of what hooks into it."""
    return is_foreign(file) or is_ours(file) or is_pythons(file)

"""Coverage of kernels as a data file of coverage.py, which reports, combines and converts it."""

from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

from cumae.properties.results.coverage import KernelCoverage
from cumae.properties.results.writable import require_file, writing


def require_coverage(name: str, file: Path) -> None:
    """Raise ``ValueError`` unless coverage.py is installed and the file can be written."""
    if find_spec("coverage") is None:
        rule = "be left out without coverage.py: pip install 'cumae[coverage]'"
        raise ValueError(f"{name} = {str(file)!r}, must {rule}")
    require_file(name, file)


def write_coverage(name: str, file: Path, kernels: Iterable[KernelCoverage]) -> None:
    """Write the lines of kernels that ran, or the branches if coverage.py is set to measure those.

    The settings are those of the running measurement, else of the current folder. The file holds the
    lines of kernels alone, not those of their modules; an earlier file is replaced. Raises ``ValueError``
    if the settings cannot be read or the file cannot be written.
    """
    from coverage import Coverage, CoverageData
    from coverage.exceptions import CoverageException

    arcs: dict[str, set[tuple[int, int]]] = {}
    for kernel in kernels:
        arcs.setdefault(kernel.file, set()).update(kernel.arcs)
    with writing(name, file):
        try:
            measurement = Coverage.current() or Coverage(data_file=None)
            data = CoverageData(basename=str(file))
            data.erase()
            if measurement.get_option("run:branch"):
                data.add_arcs(arcs)
            else:
                data.add_lines({at: {line for _, line in arcs[at] if line > 0} for at in arcs})
            data.write()
        except CoverageException as error:
            raise ValueError(
                f"{name} = {str(file)!r}, must be a file that coverage.py can write: {error}"
            ) from error

"""The command ``cumae`` as a shell sees it: exit status, standard output and standard error."""

import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from unittest.mock import patch

from cumae.properties.commands.main import main
from cumae.properties.tests.helpers.python_process import Done, run_python

BROKEN = "cumae.fixtures.bugs.causal_windows:key_offsets_as_rows"
AS_BROKEN = ("--op", "causal_windows", "--dialect", "fastdeploy")


def cumae_process(*arguments: str, cwd: Path) -> Done:
    """Run the command in a process of its own."""
    return run_python("-m", "cumae.properties.commands", *arguments, cwd=cwd)


def cumae(*arguments: str, cwd: Path) -> Done:
    """Run the command in this process; what it imports from ``cwd`` is forgotten."""
    told, said = StringIO(), StringIO()
    folder, path, given, status = Path.cwd(), [*sys.path], sys.argv, 0
    os.chdir(cwd)
    sys.argv = ["cumae", *arguments]
    sys.path.insert(0, str(cwd))
    # Under `python -m pytest`, click would name the program after pytest.
    run_by_name = patch.object(sys.modules["__main__"], "__package__", None)
    try:
        with redirect_stdout(told), redirect_stderr(said), run_by_name:
            main()
    except SystemExit as end:
        status = int(end.code or 0)
    finally:
        os.chdir(folder)
        sys.argv, sys.path[:] = given, path
        for name, module in [*sys.modules.items()]:
            if str(getattr(module, "__file__", None)).startswith(f"{cwd}{os.sep}"):
                del sys.modules[name]
    return Done([*arguments], status, told.getvalue(), said.getvalue())

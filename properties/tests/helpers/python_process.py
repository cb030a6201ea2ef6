"""Python in a process of its own, forked from one that has imported torch, which takes a second each time."""

import atexit
import gc
import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping
from pathlib import Path

Done = subprocess.CompletedProcess[str]
_CONTEXT = multiprocessing.get_context("forkserver")


def run_python(
    *arguments: str,
    cwd: Path,
    environment: Mapping[str, str] | None = None,
    timeout: float = 300,
    fresh: bool = False,
) -> Done:
    """Run ``python`` with a module (``-m``), code (``-c``) or a script and its arguments; wait for its end.

    Of cumae only this module's packages are imported when it begins, and nothing of triton. ``fresh``: not
    even torch is.
    """
    if fresh:
        command = [sys.executable, *arguments]
        given = None if environment is None else dict(environment)
        return subprocess.run(
            command, cwd=cwd, env=given, capture_output=True, text=True, timeout=timeout, check=False
        )
    _CONTEXT.set_forkserver_preload(["torch"])
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("out", "err")]
        variables = dict(os.environ if environment is None else environment)
        process = _CONTEXT.Process(target=_live, args=(arguments, str(cwd), variables, [*map(str, files)]))
        process.start()
        process.join(timeout)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired([*arguments], timeout)
        told, said = (file.read_text(encoding="utf-8", errors="replace") for file in files)
        return Done([*arguments], process.exitcode, told, said)


def _live(arguments: tuple[str, ...], folder: str, environment: dict[str, str], files: list[str]) -> None:
    """Be the process: take files, folder and variables, run, and end with the status of a Python."""
    for place, file in enumerate(files, start=1):
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(descriptor, place)
        os.close(descriptor)
    gc.freeze()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.dont_write_bytecode = bool(environment.get("PYTHONDONTWRITEBYTECODE"))
    sys.path[1:1] = [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path]
    status = 0
    try:
        _run(*arguments)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            sys.stderr.write(f"{end.code}\n")
    except BaseException:
        traceback.print_exc()
        status = 1
    finally:
        for thread in threading.enumerate():
            if thread is not threading.current_thread() and not thread.daemon:
                thread.join()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _run(how: str, *arguments: str) -> None:
    if how == "-c":
        sys.argv, sys.path[0] = ["-c", *arguments[1:]], ""
        exec(compile(arguments[0], "<string>", "exec"), {"__name__": "__main__"})
    elif how == "-m":
        sys.argv, sys.path[0] = [arguments[0], *arguments[1:]], os.getcwd()
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv, sys.path[0] = [how, *arguments], str(Path(how).parent)
        runpy.run_path(how, run_name="__main__")

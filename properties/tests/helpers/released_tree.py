"""A source tree of an engine that cannot be imported, as a folder and as a wheel."""

import zipfile
from pathlib import Path
from textwrap import dedent

import pytest

SOURCE = {
    "eng/__init__.py": "raise RuntimeError('nobody imports the package')\n",
    "eng/triton_utils/__init__.py": """
        from typing import TYPE_CHECKING
        from eng.probe import HAS_TRITON
        if TYPE_CHECKING or HAS_TRITON:
            import triton
            import triton.language as tl
        else:
            triton = tl = None
        """,
    "eng/probe.py": "HAS_TRITON = bool(())\n",
    "eng/base.py": """
        from functools import wraps
        from abc import ABC
        from typing import Generic, TypeVar
        import absent_logger
        T = TypeVar("T")
        logger = absent_logger.get(__name__)
        def launcher(function):
            sign(function)
            @wraps(function)
            def launch(self, *args):
                logger.debug("launching")
                return self.run(*function(self, *args))
            return launch
        def sign(function):
            function.is_signed = True
        class Kernel(ABC, Generic[T]):
            def run(self, grid, arguments):
                self.kernel[grid](*arguments)
        """,
    "eng/kernels/positions.py": """
        from __future__ import annotations
        import torch
        from absent_config import Config, register
        from eng.base import Kernel, launcher
        from eng.triton_utils import tl, triton
        from . import constants
        from .constants import WIDTH
        from .stars import doubled
        from .platform import current

        @triton.jit
        def _at(starts, request):
            return tl.load(starts + request)

        @register("positions")
        class Positions(Kernel["Positions.Key"]):
            @staticmethod
            @triton.jit
            def kernel(starts, contexts, positions, TILE: tl.constexpr):
                request = tl.program_id(0)
                first, stop = _at(starts, request), _at(starts, request + 1)
                for start in range(first, stop, TILE):
                    row = start + tl.arange(0, TILE)
                    position = tl.load(contexts + request) + row - first
                    tl.store(positions + row, position, mask=row < stop)

            @launcher
            def __call__(self, count: int, starts: torch.Tensor, contexts: Config, positions):
                assert positions.is_cuda, "must be on a GPU"
                return (count,), (starts, contexts, positions, WIDTH)

            def later(self):
                from .constants import HIDDEN
                from absent_config import value
                return HIDDEN + constants.WIDTH + doubled(1), value

        def filled(count):
            if current.is_special():
                return None
            return torch.zeros(count, device="cuda") + torch.ones(count).cuda()

        def needs_config(count):
            return count + Config.size

        @torch.compile(dynamic=True)
        def compiled(x):
            return x + torch.cuda.current_device()

        def broken():
            return undefined_here

        def uses_broken():
            return BAD, 1

        BAD = len(7)
        TABLE = {}
        TABLE["one"] = 1
        TABLE.update(two=2)
        """,
    "eng/kernels/constants.py": """
        try:
            from absent_sizes import WIDTH
        except ImportError:
            WIDTH = 4
        HIDDEN = 40
        """,
    "eng/kernels/stars.py": "from .double import *\n",
    "eng/kernels/double.py": "def doubled(x):\n    return 2 * x\n",
    "eng/kernels/platform.py": "def __getattr__(name):\n    raise RuntimeError('only when running')\n",
    "eng/loop/a.py": """
        from eng.loop.b import odd
        def even(n):
            return True if n == 0 else odd(n - 1)
        """,
    "eng/loop/b.py": """
        from eng.loop.a import even
        def odd(n):
            return False if n == 0 else even(n - 1)
        """,
}
FILE = "eng/kernels/positions.py"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in SOURCE.items():
        file = tmp_path / "tree" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text))
    return tmp_path / "tree"


@pytest.fixture
def wheel(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file = tmp_path / "eng-1.0-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as archive:
        for name in SOURCE:
            archive.write(tree / name, name)
        archive.writestr("eng/_C.abi3.so", b"no python")
    return file

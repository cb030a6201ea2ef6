"""Succeed if torch >= 2.6 and triton >= 3.6 import; print .pth lines that make them visible elsewhere."""

import re
import sys

import torch
import triton

for module, least in ((torch, (2, 6)), (triton, (3, 6))):
    if tuple(map(int, re.findall(r"\d+", module.__version__)[:2])) < least:
        sys.exit(f"{module.__name__}.__version__ = {module.__version__}, must be >= {least}")
for folder in sys.path:
    if folder.endswith(("site-packages", "dist-packages")):
        print(f"import site; site.addsitedir({folder!r})")

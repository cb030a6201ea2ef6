"""Print each operation and kernel, one pair a line: ``pairs.py [OPERATION…]``; default is all operations."""

import sys

from cumae.properties.operations import shipped_kernels

for kernel, operation in shipped_kernels():
    if operation in (sys.argv[1:] or [operation]):
        print(operation, kernel)

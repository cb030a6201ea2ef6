"""Print each operation and kernel, one pair a line: ``pairs.py [OPERATION…]``; default is all operations."""

import sys

from cumae.properties.operations import OPERATIONS

for operation in OPERATIONS.values():
    for kernel in operation.kernels:
        if operation.name in (sys.argv[1:] or OPERATIONS):
            print(operation.name, kernel)

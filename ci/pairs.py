"""Prints each operation and its kernel, one pair a line; only of the operations that are named, if any."""

import sys

from cumae.properties.operations import OPERATIONS

for operation in OPERATIONS.values():
    for kernel in operation.kernels:
        if operation.name in (sys.argv[1:] or OPERATIONS):
            print(operation.name, kernel)

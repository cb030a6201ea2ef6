"""Prints each operation that has a kernel here and the kernel, one pair a line."""

from cumae.properties.operations import OPERATIONS

for operation in OPERATIONS.values():
    for kernel in operation.kernels:
        print(operation.name, kernel)

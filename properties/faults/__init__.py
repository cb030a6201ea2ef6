"""Faults: looked for in compiled kernels, and put into correct ones."""

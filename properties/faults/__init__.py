"""Faults: known bugs to search for, and mutants of correct kernels and oracles."""

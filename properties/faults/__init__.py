"""Faults: known bugs that are hunted, and mutants of correct kernels and oracles."""

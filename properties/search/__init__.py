"""The search loop over cases, its budget, and the isolated processes for kernels under test."""

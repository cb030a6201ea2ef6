"""Static analysis of compiled kernels."""

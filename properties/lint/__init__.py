"""The static look at compiled kernels."""

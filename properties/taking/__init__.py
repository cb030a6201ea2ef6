"""Taking of functions, classes and kernels out of source trees that are not installed."""

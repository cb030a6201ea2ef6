"""Properties: the code that tests kernels against the oracles."""

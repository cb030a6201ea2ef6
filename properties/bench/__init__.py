"""Device times of kernels, and two versions of a function side by side."""

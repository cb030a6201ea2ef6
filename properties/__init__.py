"""Everything that brings oracles and kernels together."""

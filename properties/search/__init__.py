"""The one loop over cases, its budget, and the isolated processes that suspicious kernels run in."""

"""The one loop over cases, its budget, and the isolated worker."""

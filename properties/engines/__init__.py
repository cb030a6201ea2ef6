"""Released code under test: the adapters of engine functions."""

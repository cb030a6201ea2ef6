"""Released code under test: ``take``, and the adapters of engine functions."""

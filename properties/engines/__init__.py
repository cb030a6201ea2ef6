"""Released code under test: ``take`` and the adapters of what engines ship."""

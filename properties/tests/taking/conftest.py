"""The source tree that every file of this room takes code from, as a folder and as a wheel."""

from cumae.properties.tests.helpers.released_tree import tree, wheel

__all__ = ["tree", "wheel"]

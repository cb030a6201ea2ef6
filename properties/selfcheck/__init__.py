"""Measurements of cumae itself. Not part of the wheel."""

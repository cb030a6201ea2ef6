"""Verdicts as data, as text and as pictures, and the files of failing cases."""

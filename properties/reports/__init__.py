"""Verdicts for people: in words and drawn. Reads verdicts only."""

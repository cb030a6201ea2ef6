"""Tests over several steps: a serving engine, and functions that keep state between its steps."""

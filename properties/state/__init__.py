"""What needs more than one step: a serving engine, and functions that keep something between its steps."""

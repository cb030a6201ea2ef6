"""Hooks into Triton's interpreter: bounds, reads of garbage, races, program order, coverage."""

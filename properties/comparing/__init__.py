"""Actual outputs against expected ones: values, validators, likely causes."""

"""Notebooks and examples are executed."""

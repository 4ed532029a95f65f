"""Tiles in a normal form: their shapes, and rewrites that make each operation a statement."""

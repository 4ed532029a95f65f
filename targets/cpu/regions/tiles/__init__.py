"""Tile operations, as loops over elements that run once for a block."""

"""Tile operations of the region IR on CUDA."""

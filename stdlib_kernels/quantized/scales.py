"""Scales of the rows and groups of quantized matrices."""

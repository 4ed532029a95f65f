"""Arithmetic of addresses in PTX: 32-bit offsets, and neighbours at a distance from each other."""

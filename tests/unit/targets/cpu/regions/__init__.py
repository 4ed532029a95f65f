"""Code of the CPU target from the region IR."""

"""A slow run of the region IR: each thread is a Python generator on NumPy's arrays and numbers."""

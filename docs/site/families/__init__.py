"""An example for each family of intrinsics. Its output follows ``#:``."""

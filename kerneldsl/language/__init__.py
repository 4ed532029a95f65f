"""What can be written in a kernel: intrinsics, dtypes and argument kinds, all as data."""

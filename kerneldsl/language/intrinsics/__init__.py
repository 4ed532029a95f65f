"""The vocabulary of a kernel, as data: each intrinsic once, in the module of its kind."""

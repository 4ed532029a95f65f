"""Tests of `kerneldsl/kernels`."""

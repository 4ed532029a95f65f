"""Tests of `targets/cuda/driver`."""

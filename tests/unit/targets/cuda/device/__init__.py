"""Tests of `targets/cuda/device`."""

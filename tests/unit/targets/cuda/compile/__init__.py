"""Tests of `targets/cuda/compile`."""

"""Tests of `targets/cuda`."""

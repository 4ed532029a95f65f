"""Tests of `targets/cpu/passes`."""

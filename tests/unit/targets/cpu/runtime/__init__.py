"""Tests of `targets/cpu/runtime`."""

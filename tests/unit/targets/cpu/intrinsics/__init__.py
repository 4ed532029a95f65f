"""Tests of `targets/cpu/intrinsics`."""

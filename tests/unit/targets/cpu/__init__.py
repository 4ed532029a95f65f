"""Tests of `targets/cpu`."""

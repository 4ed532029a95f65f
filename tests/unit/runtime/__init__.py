"""Tests of `kerneldsl/runtime`."""

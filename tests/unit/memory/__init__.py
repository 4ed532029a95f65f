"""Tests of `kerneldsl/memory`."""

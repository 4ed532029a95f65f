"""Tests of `kerneldsl/statistics`."""

"""Tests of `kerneldsl/analysis`."""

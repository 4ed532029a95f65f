"""Tests of `kerneldsl/target`."""

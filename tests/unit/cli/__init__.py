"""Tests of `kerneldsl/cli`."""

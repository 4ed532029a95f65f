"""Tests of `kerneldsl/errors`."""

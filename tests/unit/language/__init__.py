"""Tests of `kerneldsl/language`."""

"""Tests of `kerneldsl/launcher`."""

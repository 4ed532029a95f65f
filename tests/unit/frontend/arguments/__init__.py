"""Tests of `kerneldsl/frontend/arguments`."""

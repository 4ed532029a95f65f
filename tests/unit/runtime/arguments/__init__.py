"""Tests of `kerneldsl/runtime/arguments`."""

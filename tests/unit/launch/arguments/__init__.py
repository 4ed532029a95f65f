"""Tests of `kerneldsl/launch/arguments`."""

"""Tests of `kerneldsl/tools`."""

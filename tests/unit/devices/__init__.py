"""Tests of `kerneldsl/devices`."""

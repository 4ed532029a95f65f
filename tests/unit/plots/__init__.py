"""Tests of `kerneldsl/plots`."""

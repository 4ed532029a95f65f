"""Tests of `kerneldsl/utilities`."""

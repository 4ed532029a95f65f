"""Tests of `kerneldsl/placement`."""

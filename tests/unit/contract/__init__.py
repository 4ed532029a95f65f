"""Tests of `kerneldsl/contract`."""

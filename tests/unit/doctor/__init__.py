"""Tests of `kerneldsl/doctor`."""

"""Tests of `kerneldsl/tools/doctor`."""

"""Tests of `kerneldsl/lowering/passes`."""
